// What the page asks the server.

const [FEW, MANY, SLOW] = [2, 16, 400]; // tokens of a request, and milliseconds from which the next has more of them

/** The server has understood that it will not answer; the message says why. */
export class Refused extends Error {}

/** The outputs of a signature and the body that brought them, of a request as TensorFlow Serving takes it. */
export async function predict(model, request, signal) {
  const sent = await fetch(`${model.path}:predict`, { method: "POST", body: JSON.stringify(request), signal });
  const response = await sent.text();
  const found = JSON.parse(response);
  if (!sent.ok) throw new Refused(found.error);
  return { outputs: found.outputs, response };
}

/** The first row of the outputs, by name. A single output stands without its name. */
export function firstRow(outputs, names) {
  const columns = names.length === 1 ? { [names[0]]: outputs } : outputs;
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[0]]));
}

/**
 * Calls `show` with the outputs that a text has so far, until it is finished; returns what `predict` does of the last request.
 *
 * A signature with "stream_" before its name writes a few tokens at a time, where the export has one. The requests wait in the queue of the
 * server as all others do.
 */
export async function stream(model, signature, values, signal, show) {
  const name = `stream_${signature}`;
  let [written, count] = [[[]], FEW];
  while (true) {
    const began = performance.now();
    const inputs = { ...values, prompt: [values.prompt], written, count };
    const request = { signature_name: name, inputs };
    const found = await predict(model, request, signal);
    const row = firstRow(found.outputs, model.signatures[name].outputs);
    show(row);
    if (row.is_finished) return { ...found, request };
    written = [row.written];
    // The text so far is read anew each time, which is much of the time of a large network.
    if (performance.now() - began > SLOW) count = Math.min(2 * count, MANY);
  }
}

export function streams(model, signature) {
  return `stream_${signature}` in model.signatures;
}
