/** Goes to a line of a text field and selects it. */
export function showLine(field, line) {
  const lines = field.value.split("\n");
  const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  field.focus();
  field.setSelectionRange(from, from + (lines[line - 1]?.length ?? 0));
}
