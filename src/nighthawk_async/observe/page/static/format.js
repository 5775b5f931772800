// Numbers and times as short texts.

export function duration(seconds) {
  if (!(seconds >= 0)) return "";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(seconds < 9.995 ? 2 : 1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  const pad = (number) => String(number).padStart(2, "0");
  return minutes < 60
    ? `${minutes}:${pad(whole % 60)} min`
    : `${Math.floor(minutes / 60)}:${pad(minutes % 60)}:${pad(whole % 60)}`;
}

// A duration of which short ones are told apart.
export function latency(seconds) {
  return seconds > 0 && seconds < 0.0995 ? `${Number((seconds * 1000).toPrecision(2))} ms` : duration(seconds);
}

export function count(number) {
  if (number < 10_000) return String(number);
  if (number < 999_500) return `${(number / 1000).toFixed(number < 99_950 ? 1 : 0)}k`;
  return `${(number / 1_000_000).toFixed(2)}M`;
}

export const MARKS = [
  ["~", "not exact: a request ended before its provider told what it took, and what is missing is left out or estimated, which may be too much"],
  ["+", "at least: there were requests without a known price"],
];

// The same marks and digits as in the terminal: see node_words.py.
const LEAST_COST = 0.0001;
const SMALL_COST = dollarFormat(4);
const LARGE_COST = dollarFormat(2);

export function tokens(usage) {
  if (!usage || !(usage.input_tokens || usage.output_tokens)) return "";
  return inexactMark(usage) + `${count(usage.input_tokens ?? 0)} / ${count(usage.output_tokens ?? 0)}`;
}

export function tokenCount(usage, name) {
  return inexactMark(usage) + count(usage?.[name] ?? 0);
}

export function cost(usage) {
  const dollars = Number(usage?.cost ?? 0);
  if (!dollars) return "";
  const more = usage.unpriced_requests ? "+" : "";
  if (dollars < LEAST_COST) return `${inexactMark(usage)}<$${LEAST_COST}${more}`;
  // From the text, which has every digit.
  return `${inexactMark(usage)}$${(dollars < 100 ? SMALL_COST : LARGE_COST).format(usage.cost)}${more}`;
}

// What the marks mean that a figure has; null for none.
export function meaningOf(text) {
  return MARKS.filter(([mark]) => text.includes(mark)).map(([mark, what]) => `${mark} ${what}`).join("\n") || null;
}

function inexactMark(usage) {
  return usage?.is_complete === false ? "~" : "";
}

function dollarFormat(digits) {
  return new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits, roundingMode: "halfEven" });
}

export function clockTime(unixSeconds, isExact = true) {
  const at = new Date(unixSeconds * 1000);
  const pad = (number, width = 2) => String(number).padStart(width, "0");
  const whole = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return isExact ? `${whole}.${pad(at.getMilliseconds(), 3)}` : whole;
}

export function plural(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}
