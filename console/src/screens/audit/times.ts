import { timestampFromDate } from "@bufbuild/protobuf/wkt";

/** Values of filters that are words. */
export const choices = { origin: ["api", "signal", "signal_unsigned", "system"] };

/** The time that an address names; undefined when it names none. */
export function atOf(text: string) {
  const at = new Date(text);
  return text && !Number.isNaN(at.getTime()) ? timestampFromDate(at) : undefined;
}

/** A time as an input of a form wants it: here, to the minute. */
export function local(text: string): string {
  const at = new Date(text);
  if (!text || Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
