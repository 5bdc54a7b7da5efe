// Numbers of bytes and operations with the prefix of their unit.

const UNITS: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Three digits and a prefix: `16.4 k`, as `core.schedule.text.short_count` has it. */
export function amount(number: number): string {
  const found = UNITS.find(([unit]) => number >= unit);
  return found ? `${Number((number / found[0]).toPrecision(3))} ${found[1]}` : `${number} `;
}
