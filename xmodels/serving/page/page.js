// The form of a signature, the request, and the answer.
import { make, show } from "./answers.js";
import { SIGNATURE, showAttention } from "./attention.js";
import { firstRow, predict, Refused, stream, streams } from "./requests.js";
import { currentLanguage, decimals, say, speak } from "./words.js";

const part = (id) => document.getElementById(id);
const SLIDERS = { speed: [0, 1, 0.05, 0.1], temperature: [0.1, 2, 0.1, 1], top_p: [0.05, 1, 0.05, 0.9] };
let model = null;
let signature = null;
let running = null; // what stops the request under way
let last = null; // what was asked and answered, to be shown again in another language

function translate() {
  document.documentElement.lang = currentLanguage() === "zh" ? "zh-CN" : "en";
  for (const each of document.querySelectorAll("[data-words]")) each.textContent = say(each.dataset.words);
  for (const each of document.querySelectorAll("[data-words-label]")) each.setAttribute("aria-label", say(each.dataset.wordsLabel));
  for (const each of document.querySelectorAll("[data-words-placeholder]")) each.placeholder = say(each.dataset.wordsPlaceholder);
  for (const each of document.querySelectorAll("[data-language]")) each.setAttribute("aria-pressed", String(each.dataset.language === currentLanguage()));
  if (model) part("version").textContent = say("version", model.version);
  if (last) display(last);
}

function field(name, { dtype, rank }) {
  const id = `field-${name}`;
  const label = make("label", { for: id });
  const words = make("span", { "data-words": name });
  if (dtype !== "string" && rank === 0) {
    const [least, most, step, value] = SLIDERS[name] ?? [0, 1, 0.01, 0];
    const shown = make("output", { for: id, class: "number" }, decimals(value, 2));
    const slider = make("input", { id, type: "range", min: least, max: most, step, value });
    slider.addEventListener("input", () => { shown.textContent = decimals(slider.valueAsNumber, 2); });
    slider.addEventListener("change", () => { if (last) ask(); });
    label.append(make("span", { class: "slider" }, words, shown));
    return make("div", { class: "field" }, label, slider);
  }
  label.append(words);
  if (dtype !== "string") return make("div", { class: "field" }, label, make("input", { id, type: "number", value: 1, step: 1 }));
  const short = ["question", "query"].includes(name) ? "short" : "";
  const typed = make("textarea", { id, class: short, dir: "auto", maxlength: 10 * model.max_text_length, "data-words-placeholder": "placeholder", "aria-required": String(!mayBeEmpty(name)) });
  return make("div", { class: "field" }, label, typed);
}

const FIRST = ["query", "question", "prompt", "text", "context", "story", "text_pair", "candidates", "choices"];

function inputsInOrder() {
  const place = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
  return Object.entries(model.signatures[signature].inputs).sort(([a], [b]) => place(a) - place(b));
}

function choose(name) {
  const typed = Object.fromEntries([...document.querySelectorAll("textarea")].map((each) => [each.id, each.value]));
  signature = name;
  running?.abort();
  last = null;
  part("result").hidden = true;
  part("fields").replaceChildren(...inputsInOrder().map(([each, input]) => field(each, input)));
  for (const each of document.querySelectorAll("textarea")) each.value = typed[each.id] ?? "";
  translate();
}

/** A list of the models, and of their versions where several are served; nothing where there is no choice. */
function models() {
  const choices = Object.entries(model.models).flatMap(([name, versions]) => [[name], ...versions.slice(1).map((version) => [name, version])]);
  if (choices.length < 2) return;
  const option = ([name, version]) => make("option", { value: JSON.stringify([name, version]) }, version ? `${name}, ${version}` : name);
  const select = make("select", { id: "model" }, ...choices.map(option));
  select.addEventListener("change", () => load(...JSON.parse(select.value)));
  part("models").replaceChildren(make("div", { class: "field" }, make("label", { for: "model", "data-words": "model" }), select));
}

/** Shows the form of a model; without a version, of its highest. */
async function load(name, version) {
  try {
    const query = name ? `?${new URLSearchParams({ name, ...(version && { version }) })}` : "";
    const found = await fetch(`page/model.json${query}`);
    const described = await found.json();
    if (!found.ok) throw new Refused(described.error);
    model = described;
  } catch (error) {
    part("fields").replaceChildren();
    return fail(error instanceof Refused ? error.message : say("unreachable", error.message));
  }
  model.path = `v1/models/${model.name}${version ? `/versions/${version}` : ""}`;
  part("name").textContent = document.title = model.name;
  if (!part("models").hasChildNodes()) models();
  signatures();
}

function signatures() {
  const names = Object.keys(model.signatures).filter((name) => name !== SIGNATURE && !name.startsWith("stream_")); // these belong to others
  signature = names.includes("adaptive") ? "adaptive" : names.includes("serving_default") ? "serving_default" : names[0];
  part("signatures").replaceChildren();
  if (names.length > 1) {
    const select = make("select", { id: "signature" }, ...names.map((name) => make("option", { value: name }, name)));
    select.value = signature;
    select.addEventListener("change", () => choose(select.value));
    part("signatures").replaceChildren(
      make("div", { class: "field" }, make("label", { for: "signature", "data-words": "signature" }), select));
  }
  choose(signature);
}

/** A text may begin from nothing, and a question with choices may do without a context. */
function mayBeEmpty(name) {
  return name === "prompt" || (name === "context" && "choices" in model.signatures[signature].inputs);
}

/** What the fields hold, or null where one that is needed is empty; it then has the focus. */
function asked() {
  const values = {};
  for (const [name, { dtype, rank }] of inputsInOrder()) {
    const input = part(`field-${name}`);
    if (dtype !== "string") {
      values[name] = rank === 0 ? input.valueAsNumber : [input.valueAsNumber || 0, 0];
    } else if (rank > 1) {
      values[name] = input.value.split("\n").map((line) => line.trim()).filter(Boolean);
    } else {
      values[name] = input.value;
    }
    const isEmpty = dtype === "string" && values[name].length === 0 && !mayBeEmpty(name);
    input.setAttribute("aria-invalid", String(isEmpty));
    if (isEmpty) {
      fail(say("empty", say(name)));
      input.focus();
      return null;
    }
  }
  return values;
}

function fail(message) {
  last = null;
  part("result").hidden = false;
  part("raw").hidden = true;
  part("time").textContent = "";
  part("answer").replaceChildren();
  part("attention").replaceChildren();
  part("error").textContent = message;
}

function display(shown) {
  const { values, answer, request, response, milliseconds } = shown;
  part("error").textContent = "";
  part("answer").replaceChildren(...show(answer, values, model));
  part("time").textContent = say("time", decimals(milliseconds, 0));
  part("request").textContent = `POST /${model.path}:predict\n${JSON.stringify(request, null, 1)}`;
  part("response").textContent = response;
  part("raw").hidden = false;
  part("attention").replaceChildren();
  showAttention(part("attention"), model, shown);
}

/** Shows what is written so far. A screen reader reads the text when it is finished. */
function displayPart(answer, values) {
  part("answer").replaceChildren(...show(answer, values, model));
  part("time").textContent = say("written", answer.num_tokens);
}

async function answerTo(values, signal) {
  if (streams(model, signature)) {
    part("answer").setAttribute("aria-busy", "true");
    const { outputs, response, request } = await stream(model, signature, values, signal, (row) => displayPart(row, values));
    return { answer: firstRow(outputs, model.signatures[request.signature_name].outputs), response, request };
  }
  const described = model.signatures[signature].inputs;
  const inputs = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, described[name].dtype === "string" ? [value] : value]));
  const request = { signature_name: signature, inputs };
  const { outputs, response } = await predict(model, request, signal);
  return { answer: firstRow(outputs, model.signatures[signature].outputs), response, request };
}

async function ask() {
  const values = asked();
  if (!values) return;
  running?.abort();
  const mine = running = new AbortController();
  part("result").hidden = false;
  part("result").classList.add("busy");
  part("time").textContent = say("waiting");
  part("error").textContent = "";
  const began = performance.now();
  try {
    const found = await answerTo(values, mine.signal);
    last = { values, ...found, milliseconds: performance.now() - began, maps: {}, signal: mine.signal };
    display(last);
  } catch (error) {
    if (error.name !== "AbortError") fail(error instanceof Refused ? error.message : say("unreachable", error.message));
  } finally {
    if (running === mine) {
      part("result").classList.remove("busy");
      part("answer").removeAttribute("aria-busy");
    }
  }
}

function begin() {
  for (const each of document.querySelectorAll("[data-language]")) {
    each.addEventListener("click", () => { speak(each.dataset.language); translate(); });
  }
  part("form").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  part("form").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
  });
  translate();
  load();
}

begin();
