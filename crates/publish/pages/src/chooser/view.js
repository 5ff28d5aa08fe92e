// Input: what the reader chooses. Output: the document, and the fragment of its address, so that a
// choice can be shared. The index's address is never taken from the fragment: a link must not make
// this page print commands for another index.

const $ = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined) continue;
    made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const fill = (parent, ...children) => parent.replaceChildren(...children);
const hidden = (text) => element("span", { class: "sr" }, text);
const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;
const dayText = (day) => new Date(day * 86400000).toISOString().slice(0, 10);

// --- The choice ---------------------------------------------------------------------------------

const hasGpus = indexTargets.size > 0;

function start() {
  const agent = `${navigator.userAgent} ${navigator.platform ?? ""}`;
  const own = /Win/.test(agent) ? "windows-x86_64" : "linux-x86_64";
  return {
    gpu: "",
    package: packages[0] ?? "",
    rocm: "",
    version: "",
    python: pythons.includes("3.12") ? "3.12" : pythons[pythons.length - 1],
    system: (systemOf(own) ?? systems[0]).key,
    installer: "pip",
    with: [],
  };
}

// Values of a fragment count only where the page offers them.
function fromFragment(fragment) {
  const choice = start();
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const take = (key, values) => {
    if (values.includes(given.get(key))) choice[key] = given.get(key);
  };
  take("package", [...projects.keys()].filter((name) => rowsOf(name).length > 0));
  take("gpu", gpus.map(({ key }) => key));
  take("rocm", rocmOf(choice.package));
  take("version", versionsOf(choice.package, choice.rocm));
  take("python", pythons);
  take("system", systems.map(({ key }) => key));
  take("installer", INSTALLERS.map(([key]) => key));
  choice.with = (given.get("with") ?? "").split(",").filter((name) => projects.has(name));
  return choice;
}

function toFragment(choice) {
  const given = new URLSearchParams();
  for (const key of ["gpu", "package", "rocm", "version", "python", "system", "installer"]) {
    if (choice[key]) given.set(key, choice[key]);
  }
  if (choice.with.length > 0) given.set("with", choice.with.join(","));
  return `#${given}`;
}

let choice = start();

function choose(changes) {
  choice = { ...choice, ...changes };
  if ("package" in changes) {
    choice.with = [];
    if (!rocmOf(choice.package).includes(choice.rocm)) choice.rocm = "";
  }
  if (!versionsOf(choice.package, choice.rocm).includes(choice.version)) choice.version = "";
  try {
    history.replaceState(null, "", toFragment(choice));
  } catch {
    // Some viewers of local files allow no address; the page works without.
  }
  show();
}

// --- Groups of choices, which are made once so that the focus stays where it is ------------------

function radios(box, name, options, key) {
  fill(box, ...options.map(({ value, label, detail, extra }) => {
    const input = element("input", { type: "radio", name, value });
    input.addEventListener("change", () => choose({ [key]: value }));
    const parts = [element("span", { class: "label" }, label)];
    if (detail) parts.push(element("code", {}, detail));
    return element("label", { class: `option ${extra ?? ""}` }, input, ...parts, element("span", { class: "state" }));
  }));
}

// Where no value of a group has anything, the reason is in another group.
function mark(box, key) {
  const inputs = [...box.querySelectorAll("input")];
  const isFor = inputs.map((input) => pick({ ...choice, [key]: input.value }) !== undefined);
  for (const [at, input] of inputs.entries()) {
    input.checked = input.value === choice[key];
    const isThere = isFor[at] || !isFor.includes(true);
    input.closest("label").classList.toggle("none", !isThere);
    fill(input.closest("label").querySelector(".state"), isThere ? "" : hidden(", nothing for this choice"));
  }
}

function selectOptions(select, options, value) {
  fill(select, ...options.map(([key, label]) => element("option", { value: key }, label)));
  select.value = value;
}

function makeGroups() {
  const ordered = [...gpus.filter(({ has }) => has), ...gpus.filter(({ has }) => !has)];
  radios($("gpus"), "gpu", ordered.map((gpu) => ({
    value: gpu.key,
    label: gpu.label,
    detail: gpu.label === gpu.key ? "" : gpu.key,
    extra: gpu.has ? "" : "absent",
  })), "gpu");
  radios($("pythons"), "python", pythons.map((python) => ({ value: python, label: python })), "python");
  radios($("systems"), "system", systems.map(({ key, label }) => ({ value: key, label })), "system");
  radios($("installers"), "installer", INSTALLERS.map(([value, label]) => ({ value, label })), "installer");
  $("gpu-group").hidden = !hasGpus;
  $("no-gpus").hidden = hasGpus;
  const parts = [...projects.keys()].filter((name) => isPart(name) && rowsOf(name).length > 0);
  const option = (name) => element("option", { value: name }, name);
  fill($("package"), ...packages.map(option));
  if (mains.length > 0 && parts.length > 0) {
    $("package").append(element("optgroup", { label: "Parts" }, ...parts.map(option)));
  }
}

function filterGpus() {
  const words = $("gpu-search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const label of $("gpus").children) {
    const gpu = gpuOf(label.querySelector("input").value);
    const isIn = (text) => words.every((one) => text.toLowerCase().includes(one));
    const isNamed = isIn(`${gpu.label} ${gpu.key} ${gpu.targets.join(" ")}`);
    const card = isNamed ? undefined : gpu.cards.find(isIn);
    label.hidden = !isNamed && !card;
    label.querySelector(".label").textContent = card ? `${gpu.label}: ${card}` : gpu.label;
    shown += label.hidden ? 0 : 1;
  }
  $("gpu-count").textContent = words.length === 0 ? "" : count(shown, "GPU", "GPUs");
}

// --- The result ---------------------------------------------------------------------------------

function address() {
  const text = $("address").value.trim();
  try {
    const url = new URL(text);
    if (!["http:", "https:", "file:"].includes(url.protocol)) return null;
    url.search = "";
    url.hash = "";
    if (!url.pathname.endsWith("/")) url.pathname += "/";
    return url.href;
  } catch {
    return null;
  }
}

function describe({ version, rocm }) {
  const gpu = gpuOf(choice.gpu);
  const parts = [`${choice.package} ${version}`.trim(), rocm && `ROCm ${rocm}`, gpu && gpuName(gpu)];
  return [...parts, `Python ${choice.python}`, systemOf(choice.system).label].filter(Boolean).join(" · ");
}

function factsOf(row) {
  const system = systemOf(choice.system);
  const tags = fittingTags(row, choice.python, system);
  const glibc = tags.map((tag) => /manylinux_(\d+)_(\d+)_/.exec(tag)).filter(Boolean)[0];
  return [
    ["Published", dayText(row.day)],
    ["Python", row.python || "not restricted"],
    ["System", glibc ? `glibc ${glibc[1]}.${glibc[2]} or newer` : ""],
    ["Form", tags.every((tag) => tag === "") ? "source, built when it is installed" : ""],
    ["Status", statusText(choice.package)],
  ].filter(([, value]) => value);
}

function statusText(name) {
  const { status, reason } = projects.get(name) ?? {};
  if (!status) return "";
  return reason ? `${status}: ${reason}` : status;
}

const ADDRESS_PROBLEM = "The address of the index is not complete: it begins with https://, http:// or file://.";

function showHole(text, others) {
  $("hole").hidden = false;
  fill($("hole-text"), text);
  $("status").textContent = text;
  fill($("nearest"), ...others.map(({ say, choice: other }) => {
    const button = element("button", { type: "button", class: "quiet" }, `Choose ${say}`);
    button.addEventListener("click", () => {
      choose(other);
      $("result-title").focus();
    });
    return button;
  }));
}

function showResult() {
  const index = address();
  $("address").setAttribute("aria-invalid", index ? "false" : "true");
  const row = pick(choice);
  const made = row && setOf(choice, row);
  const needsGpu = made !== undefined && !choice.gpu && made.isDivided;
  $("lines").hidden = !row || !index || needsGpu || made.problem !== "";
  $("hole").hidden = true;
  $("ask").hidden = true;
  fill($("facts"));
  fill($("notes"));
  fill($("companions"));
  $("companion-group").hidden = true;
  if (!row || !index) {
    showHole(index ? holeOf(choice) : ADDRESS_PROBLEM, index ? nearest(choice) : []);
    fill($("summary"), describe(choice));
    return undefined;
  }
  fill($("summary"), describe(row));
  showCompanions(row);
  if (needsGpu) {
    $("ask").hidden = false;
    $("status").textContent = $("ask").textContent;
    return row;
  }
  if (made.problem) {
    showHole(made.problem, []);
    return row;
  }
  const { text, file, notes, problem, isReading } = linesFor(choice, row, index, showResult);
  if (problem) {
    $("lines").hidden = true;
    showHole(problem, []);
    return row;
  }
  if (isReading) {
    $("lines").hidden = true;
    $("status").textContent = "Reading the hashes of the index.";
    return row;
  }
  fill($("code"), text);
  $("file").textContent = file;
  fill($("notes"), ...notes.map((note) => element("li", {}, note)));
  fill($("facts"), ...factsOf(row).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  $("status").textContent = `Lines for ${describe(row)}`;
  return row;
}

function showCompanions(row) {
  const names = companionsOf(choice, row).map(({ name }) => name);
  $("companion-group").hidden = names.length === 0;
  fill($("companions"), ...names.map((name) => {
    const input = element("input", { type: "checkbox", value: name, id: `with-${name}` });
    input.checked = choice.with.includes(name);
    input.addEventListener("change", () => {
      const others = choice.with.filter((one) => one !== name);
      choose({ with: input.checked ? [...others, name].sort() : others });
      $(`with-${name}`)?.focus();
    });
    return element("label", { class: "option" }, input, element("span", { class: "label" }, name));
  }));
}

async function copy() {
  const text = $("code").textContent;
  let isCopied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const selection = getSelection();
    selection.selectAllChildren($("code"));
    isCopied = document.execCommand("copy");
  }
  $("copy").textContent = isCopied ? "Copied" : "Press Ctrl+C";
  $("status").textContent = isCopied ? "The lines were copied." : "The lines are selected.";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 2000);
}

function show() {
  $("package").value = choice.package;
  const rocms = rocmOf(choice.package);
  selectOptions($("rocm"), [["", "newest"], ...rocms.map((rocm) => [rocm, rocm])], choice.rocm);
  $("rocm").disabled = rocms.length === 0;
  const versions = versionsOf(choice.package, choice.rocm);
  selectOptions($("version"), [["", "newest"], ...versions.map((version) => [version, version])], choice.version);
  mark($("pythons"), "python");
  mark($("systems"), "system");
  mark($("gpus"), "gpu");
  for (const input of $("installers").querySelectorAll("input")) input.checked = input.value === choice.installer;
  const row = showResult();
  showCoverage(row);
}

// --- The theme ----------------------------------------------------------------------------------

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
  $("theme").dataset.value = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // Without storage the next visit begins with the system's theme.
  }
}

function savedTheme() {
  try {
    const saved = localStorage.getItem("theme");
    return THEMES.includes(saved) ? saved : "auto";
  } catch {
    return "auto";
  }
}

function about() {
  const rocms = unique(packages.flatMap(rocmOf));
  const own = gpus.filter((gpu) => gpu.has && gpu.key !== "all").length;
  return [
    count(projects.size, "package", "packages"),
    rocms.length > 0 && `${count(rocms.length, "version", "versions")} of ROCm`,
    own > 0 && count(own, "GPU", "GPUs"),
  ].filter(Boolean).join(", ");
}

// The chosen GPU of a shared address may be far down in its list.
function scrollToGpu() {
  const chosen = $("gpus").querySelector(":checked")?.closest("label");
  if (chosen) $("gpus").scrollTop = chosen.offsetTop - chosen.offsetHeight;
}

// --- Begin --------------------------------------------------------------------------------------

setTheme(savedTheme());
$("theme").hidden = false;
$("main").hidden = false;
$("theme").addEventListener("click", () => {
  setTheme(THEMES[(THEMES.indexOf($("theme").dataset.value) + 1) % THEMES.length]);
});
$("address").value = ownIndex;
$("address").addEventListener("input", showResult);
$("gpu-search").addEventListener("input", filterGpus);
for (const key of ["package", "rocm", "version"]) {
  $(key).addEventListener("change", () => choose({ [key]: $(key).value }));
}
$("copy").addEventListener("click", copy);
$("choices").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", () => {
  choice = fromFragment(location.hash);
  show();
});
$("about").textContent = about();
makeGroups();
makeTables();
choice = fromFragment(location.hash);
show();
scrollToGpu();
