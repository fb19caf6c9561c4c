// The words of the page, in English and in Chinese.
const WORDS = {
  en: {
    language: "Language", ask: "Ask", shortcut: "or Ctrl + Enter", answer: "Answer", raw: "As JSON", request: "Request", response: "Response",
    health: "Health", metrics: "Metrics", skip: "Skip to the form", version: "Version {0}, served by xmodels", signature: "Signature", model: "Model",
    text: "Text", text_pair: "Second text", question: "Question", context: "Text that holds the answer", story: "Story, a sentence a line",
    prompt: "Beginning of a text", query: "Query", candidates: "Candidates, one a line", choices: "Choices, one a line",
    speed: "Speed: higher leaves the network earlier", temperature: "Temperature", top_p: "Share of likely tokens (top p)", seed: "Seed",
    placeholder: "Type here …", waiting: "The model works …", time: "{0} ms", empty: "Please fill in: {0}",
    unreachable: "The server does not answer ({0}).", none: "Nothing found.", noAnswer: "The text holds no answer.", probability: "Probability",
    score: "Score", similarity: "Similarity", layer: "Left the network behind layer", uncertainty: "Uncertainty", tokens: "Tokens", rank: "Rank",
    candidate: "Candidate", chosen: "chosen", word: "Word", tag: "Tag", numbers: "{0} numbers", label: "Label {0}", likeliest: "Likeliest answers",
    choice: "Choice", order: "Order", asGiven: "As given", turned: "The other way round", attention: "Attention", attentionLayer: "Layer", takes: "“{0}” takes most of: ", written: "{0} tokens so far …",
    attentionHint: "Point at a token, or go there with the arrow keys: the darker another one is, the more it takes of it (mean of the heads).",
  },
  zh: {
    language: "语言", ask: "提交", shortcut: "或按 Ctrl + Enter", answer: "结果", raw: "查看 JSON", request: "请求", response: "响应",
    health: "健康状态", metrics: "监控指标", skip: "跳到表单", version: "版本 {0}，由 xmodels 提供服务", signature: "签名", model: "模型",
    text: "文本", text_pair: "第二段文本", question: "问题", context: "包含答案的文本", story: "故事（每行一句）",
    prompt: "文本开头", query: "查询", candidates: "候选（每行一个）", choices: "选项（每行一个）",
    speed: "速度：越高越早离开网络", temperature: "温度", top_p: "保留的概率总和（top p）", seed: "随机种子",
    placeholder: "在此输入……", waiting: "模型正在计算……", time: "{0} 毫秒", empty: "请填写：{0}",
    unreachable: "服务器没有响应（{0}）。", none: "没有找到。", noAnswer: "文本中没有答案。", probability: "概率",
    score: "分数", similarity: "相似度", layer: "离开网络的层", uncertainty: "不确定度", tokens: "词元数", rank: "名次",
    candidate: "候选", chosen: "已选", word: "词", tag: "标签", numbers: "{0} 个数", label: "标签 {0}", likeliest: "最可能的答案",
    choice: "选项", order: "顺序", asGiven: "原顺序", turned: "相反顺序", attention: "注意力", attentionLayer: "层", takes: "“{0}”最关注：", written: "已生成 {0} 个词元……",
    attentionHint: "指向一个词元，或用方向键移动：颜色越深的词元，被关注得越多（各注意力头的平均）。",
  },
};

function remembered() {
  try { return localStorage.getItem("language"); } catch { return null; }
}

let language = remembered() ?? (navigator.language.startsWith("zh") ? "zh" : "en");
if (!(language in WORDS)) language = "en";

export function currentLanguage() { return language; }

export function speak(chosen) {
  language = chosen;
  try { localStorage.setItem("language", chosen); } catch { /* a browser that keeps nothing */ }
}

/** The words of a key; {0} is the value. A key without words stands for itself. */
export function say(key, value = "") {
  return Object.hasOwn(WORDS[language], key) ? WORDS[language][key].replace("{0}", () => String(value)) : key;
}

export function decimals(value, digits = 3) {
  return value.toLocaleString(language, { maximumFractionDigits: digits });
}

export function percent(value) {
  return value.toLocaleString(language, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
}
