/** Whether files are held over an element, and the handlers that tell. */
import { useEffect, useState } from "../../html.js";

export function useDrop(onFiles) {
  const [depth, setDepth] = useState(0);
  useEffect(() => {
    // A file that is dropped beside the element would be opened in place of the studio.
    const stay = (event) => holdsFiles(event) && event.preventDefault();
    for (const type of ["dragover", "drop"]) addEventListener(type, stay);
    return () => {
      for (const type of ["dragover", "drop"]) removeEventListener(type, stay);
    };
  }, []);
  return [
    depth > 0,
    {
      onDragEnter: (event) => holdsFiles(event) && setDepth((now) => now + 1),
      onDragLeave: (event) => holdsFiles(event) && setDepth((now) => Math.max(0, now - 1)),
      onDragOver: (event) => holdsFiles(event) && event.preventDefault(),
      onDrop: (event) => {
        if (!holdsFiles(event)) return;
        event.preventDefault();
        setDepth(0);
        onFiles([...event.dataTransfer.files]);
      },
    },
  ];
}

function holdsFiles(event) {
  return event.dataTransfer?.types.includes("Files");
}
