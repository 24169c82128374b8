/** What the service says about a configuration while it is typed. */
import { send } from "../../../api/client.js";
import { useEffect, useState } from "../../../html.js";
import { lineOf } from "../../../model/yaml.js";

const PAUSE_MS = 500;

/** `{state, problems, warnings, check}`; `state` is `unknown`, `valid`, `invalid` or `failed`. */
export function useValidation(text) {
  const [result, setResult] = useState({ state: "unknown", problems: [], warnings: [] });
  const check = async (signal) => {
    try {
      const headers = { "content-type": "application/yaml" };
      const found = await (await send("POST", "/agent/validate/", { body: text, headers, signal })).json();
      const shown = { state: found.valid ? "valid" : "invalid", problems: found.errors, warnings: found.warnings };
      setResult({ ...shown, problems: shown.problems.map((each) => placed(each, text)), warnings: shown.warnings.map((each) => placed(each, text)) });
    } catch (problem) {
      if (problem.name !== "AbortError") setResult({ state: problem.status < 500 ? "invalid" : "failed", problems: problemsOf(problem, text), warnings: [] });
    }
  };
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => check(stop.signal), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return { ...result, check: () => check() };
}

/** The details of a refusal, or the refusal itself, each with its line. */
export function problemsOf(problem, text) {
  const details = problem.details?.length ? problem.details : [{ loc: [], message: problem.message, hint: null }];
  return details.map((each) => placed(each, text));
}

function placed({ loc, message, hint }, text) {
  const told = message.match(/\bline (\d+)/);
  const line = loc.length ? lineOf(text, loc) : told && Number(told[1]);
  return { line, field: loc.join("."), message, hint };
}
