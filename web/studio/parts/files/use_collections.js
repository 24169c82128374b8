/** All collections of the company; null while they are read. */
import { get } from "../../../api/client.js";
import { allows } from "../../../api/session.js";
import { useLoaded } from "../use_loaded.js";

const LIMIT = 200;

export function useCollections() {
  const { value } = useLoaded((signal) => (allows("files:read") ? get("/collections/", { limit: LIMIT }, { signal }) : { collections: [] }), "", { changes: "collection" });
  return value?.collections ?? null;
}
