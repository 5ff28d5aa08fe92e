(() => {
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const words = (word) => word.replaceAll("_", " ");
const PAGE = 200;
const BAD = new Set(["failed", "error", "crashed", "timed_out", "out_of_memory"]);
const OPEN = new Set([...BAD, "unknown", "not_run"]);
const [SUITE, ID, OUTCOME, FLAKY, SECONDS, TRIES] = [0, 1, 2, 3, 4, 5];

const make = (name, text, kind) => {
  const element = document.createElement(name);
  if (text !== undefined && text !== null) element.textContent = text;
  if (kind) element.className = kind;
  return element;
};
const tone = (word) => BAD.has(word) ? "failed" : word === "passed" ? "passed" : "incomplete";
const time = (seconds) => seconds === null ? "" : seconds < 10 ? `${seconds.toFixed(2)} s` : `${Math.round(seconds)} s`;

const outcomeOf = (test) => data.outcomes[test[OUTCOME]];
const messageOf = (test) => {
  const tries = test[TRIES].filter((attempt) => attempt[3] && (attempt[0] === test[OUTCOME] || test[FLAKY]));
  return tries.length ? tries[tries.length - 1][3] : "";
};

// The verdict.
const total = data.counts.total;
const allTests = `${total} ${total === 1 ? "test" : "tests"}`;
const parts = data.outcomes.filter((word) => data.counts[word]).map((word) => `${data.counts[word]} ${words(word)}`);
if (data.counts.flaky) parts.push(`${data.counts.flaky} of them flaky`);
at("verdict").textContent = `${data.result}: ${allTests}, ${parts.join(", ") || "nothing ran"}`;
at("verdict").classList.add(data.result);
at("runner").textContent = data.runner;
for (const gap of data.gaps) at("gaps").append(make("li", gap));

// The filter.
const suites = at("suite");
suites.append(new Option("All suites", ""));
data.suites.forEach((suite, number) => suites.append(new Option(suite, String(number))));
suites.hidden = data.suites.length < 2;
const chosen = new Set();
const chip = (key, text) => {
  const label = make("label");
  const box = make("input");
  box.type = "checkbox";
  box.value = key;
  box.addEventListener("change", () => { box.checked ? chosen.add(key) : chosen.delete(key); show(); });
  label.append(box, make("span", text, key === "flaky" ? "incomplete" : tone(key)));
  at("outcomes").append(label);
  return box;
};
for (const word of data.outcomes) {
  if (!data.counts[word]) continue;
  const box = chip(word, `${words(word)} ${data.counts[word]}`);
  if (OPEN.has(word)) { box.checked = true; chosen.add(word); }
}
if (data.counts.flaky) chip("flaky", `flaky ${data.counts.flaky}`);

const matches = (test, wanted, suite) => {
  if (chosen.size && !chosen.has(outcomeOf(test)) && !(test[FLAKY] && chosen.has("flaky"))) return false;
  if (suite !== "" && test[SUITE] !== Number(suite)) return false;
  if (!wanted.length) return true;
  const text = `${test[ID]}\n${test[TRIES].map((attempt) => attempt[3] || "").join("\n")}`.toLowerCase();
  return wanted.every((word) => text.includes(word));
};

const details = (test) => {
  const body = make("div", undefined, "body");
  if (!test[TRIES].length) body.append(make("p", "The report has no output of this test.", "dim"));
  test[TRIES].forEach((attempt, number) => {
    const [outcome, run, seconds, message, output, gpu] = attempt;
    const where = [data.runs[run] && data.runs[run].path, gpu].filter(Boolean).join(", ");
    body.append(make("p", `Try ${number + 1}: ${words(data.outcomes[outcome])} ${time(seconds)} ${where}`, "dim"));
    for (const text of [message, output]) {
      if (!text) continue;
      const box = make("pre", text);
      box.tabIndex = 0;
      body.append(box);
    }
  });
  return body;
};

const row = (test) => {
  const box = make("details", undefined, "test");
  const head = make("summary");
  const word = outcomeOf(test);
  head.append(make("span", test[FLAKY] ? "flaky" : words(word), `word ${test[FLAKY] ? "incomplete" : tone(word)}`));
  const name = make("span", undefined, "name");
  name.append(make("span", test[ID], "id"));
  const why = messageOf(test).split("\n")[0];
  if (why) name.append(make("span", why, "why"));
  head.append(name, make("span", time(test[SECONDS]), "seconds"));
  box.append(head);
  box.addEventListener("toggle", () => { if (box.open && box.children.length === 1) box.append(details(test)); });
  return box;
};

let found = [];
let shown = 0;
const more = () => {
  const rows = document.createDocumentFragment();
  for (const test of found.slice(shown, shown + PAGE)) rows.append(row(test));
  shown = Math.min(found.length, shown + PAGE);
  at("tests").append(rows);
  at("more").hidden = shown === found.length;
  at("count").textContent = `${found.length} of ${allTests}${shown < found.length ? `, ${shown} are shown` : ""}`;
};
const show = () => {
  const wanted = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const suite = suites.value;
  found = data.tests.filter((test) => matches(test, wanted, suite));
  shown = 0;
  at("tests").replaceChildren();
  more();
};
let waiting = 0;
at("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 120); });
suites.addEventListener("change", show);
at("more").addEventListener("click", more);
at("filter").addEventListener("submit", (event) => event.preventDefault());

// Groups of failures, and the reports.
at("groups-box").hidden = !data.groups.some((group) => group.tests > 1);
for (const group of data.groups) at("groups").append(make("li", `${group.tests} × ${group.message} (${group.example})`));
for (const problem of data.problems) at("problems").append(make("li", problem));
const head = make("tr");
for (const name of ["Report", "Suite", "Shard", "Machine", "GPUs", "Started", "Complete"]) head.append(make("th", name));
at("runs").append(head);
for (const run of data.runs) {
  const line = make("tr");
  const gpus = (run.gpus || []).join(", ");
  for (const cell of [run.path, run.suite, run.shard, run.machine, gpus, run.started, run.complete ? "yes" : "no"]) {
    line.append(make("td", cell));
  }
  at("runs").append(line);
}
at("main").hidden = false;
show();
})();
