/** A toolset's configuration as text, and what a change of the text asks for. */
import { toYaml } from "./yaml.js";

export const TEMPLATES = {
  mcp: `name: tickets
type: mcp
url: https://tickets.example.com/mcp
headers:
  Authorization: Bearer \${secret:TICKETS_TOKEN}
`,
  openapi: `name: harbour
type: openapi
document_url: https://harbour.example.com/openapi.json
operations:
  - listBerths
  - GET /ships/{id}
`,
  http: `name: fares
type: http
tools:
  - name: fare
    description: The fare of a crossing.
    parameters:
      type: object
      properties:
        crossing: {type: string}
        cars: {type: integer}
      required: [crossing]
    method: GET
    url: https://fares.example.com/crossings/{crossing}
    query:
      cars: "{cars}"
`,
};

const SETTINGS = ["safe_to_repeat", "approval", "timeout_seconds", "retries"];
const FIELDS = ["description", "url", "document_url", "document", "base_url", "operations", "allowed_tools", "headers", "tools", ...SETTINGS, "tool_settings"];
const DEFAULTS = { approval: "never", timeout_seconds: 30, retries: 2 };
// What may be left out but is never null.
const EMPTY = { description: '""', headers: "{}", tool_settings: "{}" };

/** What was configured, without what has its default. */
export function textOf(toolset) {
  const shown = FIELDS.filter((field) => !isEmpty(toolset[field]) && (field !== "tools" || toolset.type === "http"));
  const written = Object.fromEntries(shown.map((field) => [field, field === "tools" ? toolset.tools.map(writtenTool) : toolset[field]]));
  return shown.length ? toYaml(written) : "";
}

function writtenTool(tool) {
  const implied = { ...DEFAULTS, safe_to_repeat: tool.method === "GET" };
  return Object.fromEntries(Object.entries(tool).filter(([name, value]) => !isEmpty(value) && implied[name] !== value));
}

function isEmpty(value) {
  return value === null || value === undefined || value === "" || (typeof value === "object" && Object.keys(value).length === 0);
}

/** The text of a change: a field that was taken out is named with nothing. */
export function changeOf(toolset, text) {
  const named = new Set([...text.matchAll(/^["']?(\w+)["']?\s*:/gm)].map(([, name]) => name));
  const gone = FIELDS.filter((field) => field !== "tools" && !isEmpty(toolset[field]) && !named.has(field));
  return `${text.trimEnd()}\n${gone.map((field) => `${field}: ${EMPTY[field] ?? "null"}\n`).join("")}`;
}
