// Which tokens each token takes of, shown for the token under the pointer or the one that has the focus.
import { make } from "./answers.js";
import { predict } from "./requests.js";
import { percent, say } from "./words.js";

export const SIGNATURE = "attention"; // of exports whose network shows it
const MOST_TOLD = 5; // tokens that are told in words, those of which most is taken
let layer = 1; // it stays for the next text

/**
 * Shows the attention of what was asked in `place`; nothing where the export does not say it.
 *
 * `asked` has the `values` of the fields, `maps`, an object that keeps what was found by layer, and the `signal` that ends requests.
 */
export async function showAttention(place, model, asked) {
  const inputs = inputsOf(model, asked.values);
  if (!inputs) return;
  const chosen = layer;
  try {
    asked.maps[chosen] ??= (await predict(model, { signature_name: SIGNATURE, inputs: { ...inputs, layer: chosen } }, asked.signal)).outputs;
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(make("p", { class: "hint" }, error.message));
    return;
  }
  if (chosen === layer && !asked.signal.aborted) draw(place, model, asked, asked.maps[chosen]);
}

/** The texts of a question, or null where the signature takes others. */
function inputsOf(model, values) {
  if (!(SIGNATURE in model.signatures)) return null;
  const names = Object.keys(model.signatures[SIGNATURE].inputs).filter((name) => name !== "layer");
  return names.every((name) => typeof values[name] === "string") ? Object.fromEntries(names.map((name) => [name, values[name]])) : null;
}

function draw(place, model, asked, { token, weight, num_layers }) {
  const told = make("p", { id: "attention-told", class: "facts", role: "status" });
  const tokens = make("div", { class: "tokens", role: "group", dir: "auto", "aria-label": say("attention"), "aria-describedby": "attention-hint" },
    ...token.map((text, index) => make("button", {
      type: "button", class: text.startsWith(" ") ? "token opens" : "token", tabindex: index ? -1 : 0, "aria-pressed": "false",
    }, nameOf(text))));
  const look = (button) => {
    const row = weight[[...tokens.children].indexOf(button)];
    const most = Math.max(...row);
    [...tokens.children].forEach((each, index) => {
      each.style.setProperty("--share", String(row[index] / most));
      each.setAttribute("aria-pressed", String(each === button));
      each.tabIndex = each === button ? 0 : -1;
    });
    const first = row.map((share, index) => [share, index]).sort(([a], [b]) => b - a).slice(0, MOST_TOLD);
    told.textContent = say("takes", nameOf(button.textContent)) + first.map(([share, index]) => `${nameOf(token[index])} ${percent(share)}`).join(", ");
  };
  for (const event of ["pointerover", "focusin"]) {
    tokens.addEventListener(event, ({ target }) => { if (target !== tokens) look(target); });
  }
  tokens.addEventListener("keydown", (event) => { if (move(tokens.children, event)) event.preventDefault(); });
  place.replaceChildren(make("h3", { id: "attention-title" }, say("attention")), layers(num_layers, () => showAttention(place, model, asked)),
    make("p", { id: "attention-hint", class: "hint" }, say("attentionHint")), tokens, told);
}

/** Arrow keys go from token to token; Home and End to the first and the last. */
function move(buttons, { key, target }) {
  const [here, last] = [[...buttons].indexOf(target), buttons.length - 1];
  const next = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: last }[key];
  buttons[next]?.focus();
  return next !== undefined;
}

function layers(count, show) {
  const choices = Array.from({ length: count }, (_, index) => make("option", { value: index + 1 }, String(index + 1)));
  const select = make("select", { id: "attention-layer" }, ...choices);
  select.value = layer;
  select.addEventListener("change", async () => {
    layer = Number(select.value);
    await show();
    document.getElementById("attention-layer")?.focus();
  });
  return make("div", { class: "layers" }, make("label", { for: "attention-layer" }, say("attentionLayer")), select);
}

function nameOf(token) {
  return token.trim() || "␣";
}
