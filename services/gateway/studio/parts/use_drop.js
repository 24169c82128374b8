/** Whether files are held over an element, and the handlers that tell. */
import { useState } from "../app/html.js";

export function useDrop(onFiles) {
  const [depth, setDepth] = useState(0);
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
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
