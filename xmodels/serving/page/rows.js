// The rows that a network reads for one question, such as a query with each candidate. Attention is shown of one of them.
import { say } from "./words.js";

/**
 * The rows of a question, each a `label` and the `inputs` that `attention` takes; the `name` of what differs between several, and `best`,
 * the place of the row that is shown first. Null where the signature takes other inputs than the question has.
 *
 * `names` are the inputs of the signature without `layer`.
 */
export function rowsOf(names, values, answer) {
  const { name, rows, best = 0 } = severalOf(names, values, answer) ?? { rows: [{ label: "", inputs: {} }] };
  const whole = rows.map(({ label, inputs }) => ({ label, inputs: inputsOf(names, { ...values, ...inputs }) }));
  return whole.length && whole.every(({ inputs }) => inputs) ? { name, rows: whole, best } : null;
}

/** The values of some names, or null where one of them has none, or several. */
function inputsOf(names, values) {
  const isOne = (name) => ["string", "number"].includes(typeof values[name]);
  return names.every(isOne) ? Object.fromEntries(names.map((name) => [name, values[name]])) : null;
}

function severalOf(names, values, answer) {
  if (names.includes("candidate") && "order" in answer) {
    const sorted = answer.order.map((place) => values.candidates[place]);
    return { name: "candidate", rows: sorted.map((candidate, index) => ({ label: `${index + 1}. ${candidate}`, inputs: { candidate } })) };
  }
  if (names.includes("choice") && "choice" in answer) {
    return { name: "choice", rows: values.choices.map((choice) => ({ label: choice, inputs: { choice } })), best: answer.choice };
  }
  if (names.includes("start") && "start" in answer) { // of one answer, or of the likeliest ones
    const [answers, starts] = [[answer.answer].flat(), [answer.start].flat()];
    return { name: "answer", rows: starts.map((start, index) => ({ label: answers[index] || say("noAnswer"), inputs: { start } })) };
  }
  if (names.includes("order")) {
    return { name: "order", rows: ["asGiven", "turned"].map((word, order) => ({ label: say(word), inputs: { order } })) };
  }
  if (!names.includes("text_pair") && "text_pair" in values) { // texts that are read apart
    return { name: "text", rows: ["text", "text_pair"].map((name) => ({ label: say(name), inputs: { text: values[name] } })) };
  }
  return null;
}
