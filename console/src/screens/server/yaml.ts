import type { JsonValue } from "@bufbuild/protobuf";

// Texts that YAML reads as themselves without quotes.
const plain = /^[A-Za-z_/][A-Za-z0-9_./@-]*$/;
const words = /^(?:true|false|null|yes|no|on|off|y|n|~)$/i;

/** Writes JSON as YAML 1.2: every text that could be read as something else is quoted as JSON quotes it. */
export function yaml(value: JsonValue, indent = ""): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return " []\n";
    return `\n${value.map((v) => `${indent}-${nested(v, `${indent}  `)}`).join("")}`;
  }
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value);
    if (entries.length === 0) return " {}\n";
    const text = entries.map(([k, v]) => `${indent}${scalar(k)}:${yaml(v, `${indent}  `)}`).join("");
    return indent === "" ? text : `\n${text}`;
  }
  return ` ${scalar(value)}\n`;
}

/** An item of a list: an object's first member stands behind the dash. */
function nested(value: JsonValue, indent: string): string {
  const text = yaml(value, indent);
  return text.startsWith("\n") ? ` ${text.slice(1 + indent.length)}` : text;
}

function scalar(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value);
  return plain.test(value) && !words.test(value) ? value : JSON.stringify(value);
}
