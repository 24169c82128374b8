/** Fields for the arguments that a JSON Schema describes, and the arguments that were written into them. */

/** `{name, kind, label, hint, required, options?, initial}`; `kind` is `text`, `number`, `boolean`, `choice` or `json`. */
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

/** `{arguments, problems}`: what was left empty is left out, unless it is required; problems by name. */
export function argumentsOf(fields, written) {
  const given = {};
  const problems = {};
  for (const { name, kind, required } of fields) {
    const text = written[name] ?? "";
    // An empty text is a value only where one is asked for.
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
    if (!Number.isFinite(number) || text.trim() === "") throw new Error("is no number");
    return number;
  }
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("is not valid JSON");
  }
}
