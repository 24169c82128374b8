/** The address of an image's bytes, which are fetched with the credential; null before and when that fails. */
import { send } from "../../api/client.js";
import { useEffect, useState } from "../../html.js";

export function useImage(path, query = {}) {
  const [address, setAddress] = useState(null);
  useEffect(() => {
    if (!path) return undefined;
    let made = null;
    let gone = false;
    send("GET", path, { query })
      .then((response) => response.blob())
      .then((blob) => gone || setAddress((made = URL.createObjectURL(blob))))
      .catch(() => setAddress(null));
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [path]);
  return address;
}
