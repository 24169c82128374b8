/**
 * Converts toolsets into text, edits the tools that a configuration lists, and describes forms for tools' arguments.
 */
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
// These fields are optional, but can't be null.
const EMPTY = { description: '""', headers: "{}", tool_settings: "{}" };

/** Returns the configuration as text, without defaults. */
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

/** Returns the body of a PATCH, which clears fields that were removed from the text. */
export function changeOf(toolset, text) {
  const named = new Set([...text.matchAll(/^["']?(\w+)["']?\s*:/gm)].map(([, name]) => name));
  const gone = FIELDS.filter((field) => field !== "tools" && !isEmpty(toolset[field]) && !named.has(field));
  return `${text.trimEnd()}\n${gone.map((field) => `${field}: ${EMPTY[field] ?? "null"}\n`).join("")}`;
}

const KEY = /^tools[ \t]*:[ \t]*(.*)$/m;

/** Returns `{names, from, to}`: the listed tools, and the range of the `tools` entry (without one, the text's end). */
export function toolsIn(text) {
  const found = text.match(KEY);
  if (!found) return { names: [], from: text.length, to: text.length };
  const from = found.index;
  const after = text.slice(from + found[0].length);
  const inline = found[1].replace(/\s+#.*$/, "").trim();
  if (inline) {
    const names = inline.replace(/^\[|\]$/g, "").split(",").map(nameOf).filter(Boolean);
    return { names, from, to: from + found[0].length };
  }
  const block = after.match(/^(?:\n[ \t]*(?:-[ \t]+[^\n]*|#[^\n]*)?(?=\n|$))*/)[0].replace(/(?:\n[ \t]*)*$/, "");
  const names = [...block.matchAll(/^[ \t]*-[ \t]+(.*)$/gm)].map(([, name]) => nameOf(name.replace(/\s+#.*$/, "")));
  return { names, from, to: from + found[0].length + block.length };
}

function nameOf(written) {
  return written.trim().replace(/^(["'])(.*)\1$/, "$2");
}

/** Returns the text with these tools instead of those that it lists. */
export function withTools(text, names) {
  const { from, to } = toolsIn(text);
  const before = text.slice(0, from);
  const entry = names.length ? `tools:\n${names.map((name) => `  - ${/[*]/.test(name) ? JSON.stringify(name) : name}`).join("\n")}` : "tools: []";
  return `${before}${before && !before.endsWith("\n") ? "\n" : ""}${entry}${to === text.length ? "\n" : text.slice(to)}`;
}

/** Returns form fields: `{name, kind, label, hint, …}`. `kind`: `text`, `number`, `boolean`, `choice` or `json`. */
export function fieldsOf(schema) {
  const required = new Set(schema?.required ?? []);
  return Object.entries(schema?.properties ?? {}).map(([name, given]) => {
    const described = given === true || given === false || given === null ? {} : given;
    const kind = kindOf(described);
    return {
      name,
      kind,
      label: described.title ?? name,
      hint: described.description ?? "",
      required: required.has(name),
      options: kind === "choice" ? described.enum : undefined,
      initial: initialOf(kind, described),
    };
  });
}

function kindOf(schema) {
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return "choice";
  const types = [schema.type].flat().filter((type) => type && type !== "null");
  if (types.length !== 1) return "json";
  if (types[0] === "string") return "text";
  if (types[0] === "boolean") return "boolean";
  return types[0] === "integer" || types[0] === "number" ? "number" : "json";
}

function initialOf(kind, { default: given }) {
  if (given === undefined) return "";
  if (kind === "choice" || kind === "json") return JSON.stringify(given);
  return String(given);
}

/** Returns `{arguments, problems}`. Empty fields are left out unless they're required. Problems are listed by name. */
export function argumentsOf(fields, written) {
  const given = {};
  const problems = {};
  for (const { name, kind, required } of fields) {
    const text = written[name] ?? "";
    // An empty string is a value only if the field is a required text field.
    if (text === "" && !(kind === "text" && required)) {
      if (required) problems[name] = "is required";
      continue;
    }
    try {
      given[name] = valueOf(kind, text);
    } catch (problem) {
      problems[name] = problem.message;
    }
  }
  return { arguments: given, problems };
}

function valueOf(kind, text) {
  if (kind === "text") return text;
  if (kind === "number") {
    const number = Number(text);
    if (!Number.isFinite(number) || text.trim() === "") throw new Error("isn't a number");
    return number;
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("isn't valid JSON");
  }
}
