// Input: the data of the page, and the choice. Output: the grids of what exists, all packages, and
// what changed.

const FIRST_VERSIONS = 10;
const FIRST_PACKAGES = 100;
let allVersions = false;
let allPackages = false;

function cell(isThere, text, words, isChosen) {
  const classes = [isThere ? "there" : "hole", isChosen ? "chosen" : ""].filter(Boolean).join(" ");
  return element("td", { class: classes }, element("span", { "aria-hidden": "true" }, text), hidden(words));
}

const head = (first, others) =>
  element("tr", {}, ...[first, ...others].map((title) => element("th", { scope: "col" }, title)));

const pythonHeads = () =>
  pythons.map((python) => element("span", {}, hidden("Python "), python));

// GPUs that a package or what is installed with it is divided by, in any of its versions.
function gpusOf(name, row) {
  const names = row ? [name, ...setOf({ ...choice, gpu: "", with: [] }, row).members.keys()] : [name];
  const targets = new Set(unique(names).flatMap(rowsOf).flatMap((one) => deviceExtras(one).map(targetOfExtra)));
  return gpus.filter((gpu) => gpu.key !== "all" && gpu.targets.some((target) => targets.has(target)));
}

function showCoverage(picked) {
  const row = picked ?? rowsFor(choice)[0];
  const name = choice.package;
  const system = systemOf(choice.system);
  const own = gpusOf(name, row);
  const versions = versionsOf(name, choice.rocm);
  const shown = allVersions ? versions : versions.slice(0, FIRST_VERSIONS);
  $("coverage-of").textContent = `${name} on ${system.label}, by Python`;
  fill($("by-version"),
    element("thead", {}, head("Version", pythonHeads())),
    element("tbody", {}, ...shown.map((version) => versionRow(version, own, system, picked))));
  $("more-versions").hidden = versions.length <= shown.length;
  $("more-versions").textContent = `Show all ${versions.length} versions`;
  $("by-gpu-box").hidden = own.length === 0 || !row;
  if (own.length > 0 && row) {
    $("by-gpu-title").textContent = `GPUs of ${name} ${row.version}`;
    fill($("by-gpu"),
      element("thead", {}, head("GPU", pythonHeads())),
      element("tbody", {}, ...own.map((gpu) => gpuRow(gpu, row, system))));
  }
  fill($("holes"), ...holesOf(row, own, system).map((text) => element("li", {}, text)));
}

function versionRow(version, own, system, chosen) {
  const rows = rowsOf(choice.package).filter((row) => row.version === version);
  const button = element("button", { type: "button", class: "link" }, version);
  button.addEventListener("click", () => choose({ version }));
  const isYanked = rows.every((row) => row.yanked !== null);
  const cells = pythons.map((python) => {
    const fitting = rows.filter((row) => fitsPython(row, python, system));
    const isChosen = chosen?.version === version && choice.python === python;
    if (fitting.length === 0) return cell(false, "–", "missing", isChosen);
    if (own.length === 0) return cell(true, "●", "exists", isChosen);
    const served = own.filter((gpu) => fitting.some((row) => problemFor(choice, row, { gpu: gpu.key, python }) === ""));
    const words = `${served.length} of ${count(own.length, "GPU", "GPUs")}`;
    return cell(served.length === own.length, `${served.length}/${own.length}`, words, isChosen);
  });
  const label = element("th", { scope: "row" }, button);
  if (isYanked) label.append(" ", element("span", { class: "badge" }, "withdrawn"));
  return element("tr", {}, label, ...cells);
}

function gpuRow(gpu, row, system) {
  const button = element("button", { type: "button", class: "link" }, gpu.label);
  button.addEventListener("click", () => choose({ gpu: gpu.key }));
  const label = element("th", { scope: "row" }, button);
  if (gpu.label !== gpu.key) label.append(" ", element("code", {}, gpu.key));
  const rows = rowsOf(choice.package).filter((one) => one.version === row.version);
  return element("tr", {}, label, ...pythons.map((python) => {
    const fitting = rows.filter((one) => fitsPython(one, python, system));
    const isThere = fitting.some((one) => problemFor(choice, one, { gpu: gpu.key, python }) === "");
    const isChosen = choice.gpu === gpu.key && choice.python === python;
    return cell(isThere, isThere ? "●" : "–", isThere ? "exists" : "missing", isChosen);
  }));
}

function holesOf(row, own, system) {
  if (!row) return [holeOf(choice)];
  const rows = rowsOf(choice.package).filter((one) => one.version === row.version);
  const what = `${choice.package} ${row.version}`;
  const absent = pythons.filter((python) => !rows.some((one) => fitsPython(one, python, system)));
  const holes = absent.length > 0 ? [`${what} does not exist for Python ${absent.join(", ")} on ${system.label}.`] : [];
  for (const gpu of own) {
    const problems = rows.flatMap((one) =>
      pythons.filter((python) => fitsPython(one, python, system))
        .map((python) => problemFor(choice, one, { gpu: gpu.key, python })));
    if (problems.length > 0 && problems.every((problem) => problem !== "")) holes.push(problems[0]);
  }
  if (holes.length > 0) return holes;
  const gpuText = own.length === 0 ? "" : ` and for ${count(own.length, "GPU", "GPUs")}`;
  return [`No holes: ${what} exists for ${count(pythons.length, "Python", "Pythons")}${gpuText} on ${system.label}.`];
}

// --- All packages -------------------------------------------------------------------------------

function showPackages() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = ({ name, at }) => {
    const [row] = rowsAt(at);
    return `${name} ${row ? `${row.version} ${row.rocm}` : ""} ${statusText(name)}`.toLowerCase();
  };
  const ordered = unique([...packages, ...projects.keys()]).map((name) => projects.get(name));
  const found = ordered.filter((project) => words.every((one) => text(project).includes(one)));
  const shown = allPackages ? found : found.slice(0, FIRST_PACKAGES);
  $("search-count").textContent = count(found.length, "package", "packages");
  fill($("all-packages"),
    element("thead", {}, head("Package", ["Newest version", "ROCm", "Versions", "Published"])),
    element("tbody", {}, ...shown.map(packageRow)));
  $("more-packages").hidden = shown.length === found.length;
  $("more-packages").textContent = `Show all ${found.length} packages`;
}

function packageRow({ name, at }) {
  const rows = rowsAt(at);
  const row = rows.find((one) => one.yanked === null) ?? rows[0];
  const label = element("th", { scope: "row" }, name);
  if (row) {
    const button = element("button", { type: "button", class: "link" }, name);
    button.addEventListener("click", () => {
      choose({ package: name });
      $("result-title").focus();
    });
    fill(label, button);
  }
  const status = statusText(name);
  if (status) label.append(" ", element("span", { class: "badge" }, status));
  const versions = unique(rows.map((one) => one.version)).length;
  const cells = row ? [row.version, row.rocm || "", String(versions), dayText(row.day)] : ["", "", "0", ""];
  return element("tr", {}, label, ...cells.map((text) => element("td", {}, text)));
}

// --- Changes ------------------------------------------------------------------------------------

function showChanges() {
  const { changes } = data;
  $("changes").hidden = changes === null;
  if (changes === null) return;
  $("changes-title").textContent = `Since ${changes.since}`;
  const group = (title, items) => {
    if (items.length === 0) return [];
    const rows = items.map(([name, version, files]) => {
      const number = element("span", { class: "dim" }, count(files, "file", "files"));
      return element("li", {}, element("strong", {}, name), ` ${version} `, number);
    });
    return [element("h3", {}, title), element("ul", { class: "columns" }, ...rows)];
  };
  const made = [
    ...group("New", changes.added),
    ...group("Removed", changes.removed),
    ...group("Withdrawn", changes.withdrawn),
  ];
  fill($("changes-list"), ...(made.length > 0 ? made : ["Nothing changed."]));
}

function makeTables() {
  $("search").addEventListener("input", showPackages);
  $("more-versions").addEventListener("click", () => {
    allVersions = true;
    show();
  });
  $("more-packages").addEventListener("click", () => {
    allPackages = true;
    showPackages();
  });
  showPackages();
  showChanges();
}
