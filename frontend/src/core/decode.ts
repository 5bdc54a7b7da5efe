// Data as Python wrote them (tessera/viz/base/payload.py): JSON, arrays as bytes in base64, long texts deflated.

export type Typed = Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array;
export interface NDArray {
  shape: number[];
  data: Typed;
}

const ARRAYS: Record<string, new (buffer: ArrayBuffer) => Typed> = {
  f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array,
};

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

/** Parse JSON; `{"$array": ...}` becomes an NDArray.  A reviver would be called for every number and every text. */
export function parse(text: string): any {
  const value: unknown = JSON.parse(text);
  return text.includes('"$array":') ? withArrays(value) : value;
}

/** Replace arrays where they stand. */
function withArrays(value: any): any {
  if (typeof value !== "object" || value === null) return value;
  if ("$array" in value) return { shape: value.shape, data: new ARRAYS[value.$array](bytesOf(value.data).buffer) } satisfies NDArray;
  for (const name in value) if (typeof value[name] === "object") value[name] = withArrays(value[name]);
  return value;
}

export async function inflate(bytes: BufferSource): Promise<string> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Read the data element of a view in a page. */
export async function unpack(node: HTMLElement): Promise<any> {
  const text = node.textContent ?? "";
  return parse("packed" in node.dataset ? await inflate(bytesOf(text)) : text);
}
