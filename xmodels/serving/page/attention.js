// Which tokens each token takes of, shown for the token under the pointer or the one that has the focus.
import { make } from "./answers.js";
import { predict } from "./requests.js";
import { rowsOf } from "./rows.js";
import { percent, say } from "./words.js";

export const SIGNATURE = "attention"; // of exports whose network shows it
const MOST_TOLD = 5; // tokens that are told in words, those of which most is taken
let layer = 1; // it stays for the next text

/**
 * Shows the attention of what was asked in `place`; nothing where the export does not say it.
 *
 * `asked` has the `values` of the fields and the `answer`, `maps`, an object that keeps what was found by row and layer, and the `signal`
 * that ends requests; the `row` that is shown stays there too.
 */
export async function showAttention(place, model, asked) {
  const found = SIGNATURE in model.signatures ? rowsOf(namesOf(model), asked.values, asked.answer) : null;
  if (!found) return;
  asked.row ??= found.best;
  const keyNow = () => `${asked.row} ${layer}`;
  const key = keyNow();
  const inputs = { ...found.rows[asked.row].inputs, layer };
  try {
    asked.maps[key] ??= (await predict(model, { signature_name: SIGNATURE, inputs }, asked.signal)).outputs;
  } catch (error) {
    if (error.name !== "AbortError") place.replaceChildren(make("p", { class: "hint" }, error.message));
    return;
  }
  if (key === keyNow() && !asked.signal.aborted) draw(place, asked, found, asked.maps[key], () => showAttention(place, model, asked));
}

function namesOf(model) {
  return Object.keys(model.signatures[SIGNATURE].inputs).filter((name) => name !== "layer");
}

function draw(place, asked, found, { token, weight, num_layers }, show) {
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
  place.replaceChildren(make("h3", { id: "attention-title" }, say("attention")), ...pickers(asked, found, num_layers, show),
    make("p", { id: "attention-hint", class: "hint" }, say("attentionHint")), tokens, told);
}

/** Arrow keys go from token to token; Home and End to the first and the last. */
function move(buttons, { key, target }) {
  const [here, last] = [[...buttons].indexOf(target), buttons.length - 1];
  const next = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: last }[key];
  buttons[next]?.focus();
  return next !== undefined;
}

/** What chooses the row, where there are several, and the layer; `show` draws them. */
function pickers(asked, { name, rows }, count, show) {
  const numbers = Array.from({ length: count }, (_, index) => [index + 1, String(index + 1)]);
  const ofLayer = picker("attention-layer", say("attentionLayer"), numbers, layer, (chosen) => { layer = chosen; return show(); });
  if (rows.length === 1) return [ofLayer];
  const labels = rows.map(({ label }, index) => [index, label]);
  return [picker("attention-row", say(name), labels, asked.row, (chosen) => { asked.row = chosen; return show(); }), ofLayer];
}

/** A list of `options`, number and label each, of which one is `chosen`. It keeps the focus when `pick` has drawn all anew. */
function picker(id, label, options, chosen, pick) {
  const select = make("select", { id, dir: "auto" }, ...options.map(([value, shown]) => make("option", { value }, shown)));
  select.value = chosen;
  select.addEventListener("change", async () => {
    await pick(Number(select.value));
    document.getElementById(id)?.focus();
  });
  return make("div", { class: "picker" }, make("label", { for: id }, label), select);
}

function nameOf(token) {
  return token.trim() || "␣";
}
