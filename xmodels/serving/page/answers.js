// Shows the answer of a signature, which its outputs tell. Whatever came from a model or a person is set as text, never as HTML.
import { decimals, percent, say } from "./words.js";

/** An element; children are elements or texts. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function bars(rows) {
  const list = make("ol", { class: "bars", role: "list" });
  for (const { label, share, shown = percent(share), best = false } of rows) {
    const bar = make("div");
    bar.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
    list.append(make("li", { class: best ? "best" : "" },
      make("span", { class: "label", dir: "auto" }, label), make("span", { class: "number" }, shown),
      make("div", { class: "track", "aria-hidden": "true" }, bar)));
  }
  return list;
}

function facts(pairs) {
  return make("p", { class: "facts" }, ...pairs.map(([name, value]) => make("span", {}, `${name}: `, make("b", {}, value))));
}

function table(head, rows) {
  const top = make("tr", {}, ...head.map((cell) => make("th", { scope: "col" }, cell)));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", { dir: "auto" }, cell))));
  return make("table", {}, make("thead", {}, top), make("tbody", {}, ...body));
}

/** A text with marks; spans count characters, of which some are two units of a JavaScript text. */
function marked(text, spans) {
  const characters = Array.from(text);
  const shown = make("p", { class: "text", dir: "auto" });
  let at = 0;
  for (const { start, end, type } of spans) {
    if (start < at || end <= start) continue;
    shown.append(characters.slice(at, start).join(""));
    const mark = make("mark", {}, characters.slice(start, end).join(""));
    if (type) {
      mark.classList.add(`kind-${kindOf(type)}`);
      mark.append(make("small", {}, type));
    }
    shown.append(mark);
    at = end;
  }
  shown.append(characters.slice(at).join(""));
  return shown;
}

/** One of six colours, the same for a type wherever it stands. */
function kindOf(type) {
  const known = { PER: 0, PERSON: 0, LOC: 1, GPE: 1, ORG: 2, MISC: 3 };
  return known[type] ?? Array.from(type).reduce((sum, each) => sum + each.codePointAt(0), 0) % 6;
}

function byProbability(probabilities, names, isBest) {
  const rows = probabilities.map((share, index) => ({ label: names[index] ?? say("label", index), share, best: isBest(index) }));
  return bars(rows.sort((a, b) => b.share - a.share));
}

function showLabels(answer, asked, model) {
  const names = model.labels ? [...model.labels] : [], label = answer.label ?? answer.answer;
  let best = names.indexOf(label); // not always the likeliest one: a threshold may have chosen it
  if (best < 0) {
    best = answer.probabilities.indexOf(Math.max(...answer.probabilities));
    names[best] = label;
  }
  const shown = [byProbability(answer.probabilities, names, (index) => index === best)];
  if ("layer" in answer) {
    shown.push(facts([[say("layer"), String(answer.layer)], [say("uncertainty"), decimals(answer.uncertainty)]]));
  }
  return shown;
}

function showSeveralLabels(answer) {
  return [byProbability(answer.probabilities, answer.labels.map((label, i) => (answer.chosen[i] ? `✓ ${label} (${say("chosen")})` : label)),
    (index) => answer.chosen[index])];
}

function showEntities(answer, asked) {
  const spans = answer.entity.map((_, i) => ({ start: answer.start[i], end: answer.end[i], type: answer.type[i] }));
  return [marked(asked.text, spans), ...(spans.length ? [] : [make("p", { class: "hint" }, say("none"))])];
}

function showWords(answer) {
  return [table([say("word"), say("tag"), say("probability")],
    answer.word.map((word, i) => [word, answer.tag[i], percent(answer.probability[i])]))];
}

function showSpan(answer, asked) {
  if (answer.start < 0 || !answer.answer) return [make("p", { class: "large" }, say("noAnswer")), facts([[say("probability"), percent(answer.score)]])];
  return [make("p", { class: "large", dir: "auto" }, answer.answer), marked(asked.context, [answer]), facts([[say("probability"), percent(answer.score)]])];
}

function showSpans(answer) {
  return [make("h3", {}, say("likeliest")),
    bars(answer.answer.map((label, i) => ({ label: label || say("noAnswer"), share: answer.score[i], best: i === 0 })))];
}

function showRanking(answer, asked) {
  return [bars(answer.order.filter((place) => asked.candidates[place]).map((place, i) => ({
    label: `${i + 1}. ${asked.candidates[place]}`, share: answer.probabilities[place], best: i === 0,
    shown: `${percent(answer.probabilities[place])} · ${decimals(answer.scores[place], 2)}`,
  })))];
}

function showChoice(answer, asked) {
  return [byProbability(answer.probabilities, asked.choices, (index) => index === answer.choice)];
}

function showNumber(name) {
  return (answer) => [make("p", { class: "large number" }, decimals(answer[name], 4)),
    ...(name === "similarity" ? [bars([{ label: say("similarity"), share: (answer[name] + 1) / 2, shown: "−1 … 1", best: true }])] : [])];
}

function showText(name) {
  return (answer, asked) => [make("p", { class: "text plain", dir: "auto" }, (asked.prompt ?? ""), make(asked.prompt ? "mark" : "span", {}, answer[name])),
    ...("num_tokens" in answer ? [facts([[say("tokens"), String(answer.num_tokens)]])] : [])];
}

function showVector(answer) {
  return [make("p", {}, say("numbers", answer.vector.length)),
    make("p", { class: "text number" }, `${answer.vector.slice(0, 12).map((each) => decimals(each, 4)).join("   ")} …`)];
}

const KINDS = [ // outputs that a signature has, and how they are shown; the first that fits
  [["chosen", "labels", "probabilities"], showSeveralLabels],
  [["label", "probabilities"], showLabels],
  [["entity", "type", "start", "end"], showEntities],
  [["word", "tag", "probability"], showWords],
  [["order", "scores", "probabilities"], showRanking],
  [["choice", "probabilities"], showChoice],
  [["answer", "probabilities"], showLabels],
  [["translation"], showText("translation")],
  [["continuation"], showText("continuation")],
  [["similarity"], showNumber("similarity")],
  [["vector"], showVector],
];

/** Elements that show the answer to what was asked. */
export function show(answer, asked, model) {
  if ("answer" in answer && "start" in answer) return Array.isArray(answer.answer) ? showSpans(answer) : showSpan(answer, asked);
  const kind = KINDS.find(([names]) => names.every((name) => name in answer));
  if (kind) return kind[1](answer, asked, model);
  if (Object.keys(answer).join() === "score") return showNumber("score")(answer);
  return [make("pre", { tabindex: "0" }, JSON.stringify(answer, null, 1))];
}
