// Input: the data of the page. Output: answers about it: which versions fit a choice, what is
// missing, and why. Nothing here touches the document.

const data = JSON.parse(document.getElementById("data").textContent);

// Names of extras and packages as PEP 503 and PEP 685 compare them.
const normal = (name) => name.toLowerCase().replace(/[-_.]+/g, "-");

// Systems by the platform tag of a wheel.
const SYSTEMS = [
  ["linux-x86_64", "Linux", /^(linux|manylinux.*)_x86_64$/, "linux", "x86_64"],
  ["linux-aarch64", "Linux on ARM", /^(linux|manylinux.*)_aarch64$/, "linux", "aarch64"],
  ["musl-x86_64", "Linux with musl", /^musllinux_.*_x86_64$/, "linux", "x86_64"],
  ["windows-x86_64", "Windows", /^win_amd64$/, "win32", "AMD64"],
  ["windows-arm64", "Windows on ARM", /^win_arm64$/, "win32", "ARM64"],
  ["macos", "macOS", /^macosx_/, "darwin", ""],
].map(([key, label, tag, platform, machine]) => ({ key, label, tag, platform, machine }));

const isPart = (name) => name.includes("-gfx") || /^rocm-(sdk-|profiler)/.test(name);

function readRow([version, set, needs, rocm, day, python, yanked]) {
  const text = data.versions[version];
  return {
    version: text,
    tags: data.sets[set].map((tag) => data.tags[tag]),
    needs: data.needs[needs],
    rocm: rocm < 0 ? "" : data.rocm[rocm],
    day,
    python: data.pythons[python],
    yanked: yanked < 0 ? null : data.reasons[yanked],
    isPre: /(a|b|rc|\.dev)\d/.test(text.split("+")[0]),
    fits: new Map(),
    sets: new Map(),
  };
}

// Projects share lists of rows, so each list is read once.
const rowLists = data.rows.map(() => null);
const rowsAt = (at) => (rowLists[at] ??= data.rows[at].map(readRow));

const projects = new Map(
  data.projects.map(([name, rows, status, reason]) => [name, { name, at: rows, status, reason }]),
);
const rowsOf = (name) => (projects.has(name) ? rowsAt(projects.get(name).at) : []);

// The rows of each list by version.
const rowsByVersion = data.rows.map(() => null);
function rowsOfVersion(name, version) {
  const { at } = projects.get(name);
  if (rowsByVersion[at] === null) {
    rowsByVersion[at] = new Map();
    for (const row of rowsAt(at)) rowsByVersion[at].set(row.version, [...(rowsByVersion[at].get(row.version) ?? []), row]);
  }
  return rowsByVersion[at].get(version) ?? [];
}

function splitTag(tag) {
  const [pythons, abis, platforms] = tag.split("-").map((part) => part.split("."));
  return { pythons, abis, platforms };
}
const splitTags = new Map(data.tags.filter(Boolean).map((tag) => [tag, splitTag(tag)]));

// "3.12", and "3.13t" for the build without a global lock.
function fitsPythonTag({ pythons, abis }, python) {
  const isFree = python.endsWith("t");
  const minor = Number.parseInt(python.slice(2), 10);
  return pythons.some((tag) => {
    const least = /^py3(\d*)$/.exec(tag);
    if (least) return abis.includes("none") && Number(least[1] || 0) <= minor;
    const cpython = /^cp3(\d+)$/.exec(tag);
    if (!cpython) return false;
    const own = Number(cpython[1]);
    if (abis.includes("abi3") && !isFree && own <= minor) return true;
    if (own !== minor) return false;
    return abis.includes("none") || abis.includes(`cp3${own}${isFree ? "t" : ""}`);
  });
}

const isFor = (tags, system) =>
  tags.platforms.some((tag) => tag === "any" || system.tag.test(tag));

// The tags of a row that fit; "" is a source distribution, which fits everywhere.
const fittingTags = (row, python, system) =>
  row.tags.filter((tag) => {
    if (tag === "") return true;
    const tags = splitTags.get(tag);
    return (!system || isFor(tags, system)) && (!python || fitsPythonTag(tags, python));
  });

// Requires-Python; a clause that cannot be read excludes nothing.
function acceptsPython(specifier, python) {
  const own = [3, Number.parseInt(python.slice(2), 10), 99];
  const compare = (parts) => {
    for (let at = 0; at < parts.length; at += 1) {
      if ((own[at] ?? 0) !== parts[at]) return (own[at] ?? 0) - parts[at];
    }
    return 0;
  };
  return specifier.split(",").every((clause) => {
    const match = /^\s*(>=|<=|==|!=|~=|>|<)\s*(\d+(?:\.\d+)*)(\.\*)?\s*$/.exec(clause);
    if (!match) return true;
    const parts = match[2].split(".").map(Number).slice(0, 3);
    const begins = own.slice(0, parts.length).every((part, at) => part === parts[at]);
    const padded = [...parts, 0, 0].slice(0, 3);
    // The patch release of the user's Python is unknown.
    const equals = match[3] ? begins : compare(padded) === 0 || (parts.length === 3 && own[1] === parts[1]);
    switch (match[1]) {
      case ">=": return compare(padded) >= 0;
      case "<=": return compare(padded) <= 0;
      case ">": return compare(padded) > 0;
      case "<": return compare(padded) < 0;
      case "!=": return !(match[3] && begins);
      case "~=": return compare(padded) >= 0 && own.slice(0, parts.length - 1).every((part, at) => part === parts[at]);
      default: return equals;
    }
  });
}

function fitsPython(row, python, system) {
  const key = `${python} ${system.key}`;
  if (!row.fits.has(key)) {
    row.fits.set(key, acceptsPython(row.python, python) && fittingTags(row, python, system).length > 0);
  }
  return row.fits.get(key);
}

// --- GPUs ---------------------------------------------------------------------------------------

const deviceExtras = (row) => row.needs.e.filter((extra) => normal(extra).startsWith("device-"));
const targetOfExtra = (extra) => normal(extra).slice("device-".length);
const targetOfName = (name) => (name.includes("-gfx") ? name.slice(name.indexOf("-gfx") + 1) : "");

const indexTargets = new Set([
  ...data.needs.flatMap((needs) => deviceExtras({ needs }).map(targetOfExtra)),
  ...[...projects.keys()].map(targetOfName),
].filter((target) => target && target !== "all"));

const knownTargets = new Set(data.gpus.flatMap((gpu) => gpu.t));
const gpus = [
  ...data.gpus.map((gpu) => ({
    key: gpu.n, label: gpu.p, targets: gpu.t, cards: gpu.c, has: gpu.t.some((target) => indexTargets.has(target)),
  })),
  ...[...indexTargets].filter((target) => !knownTargets.has(target)).sort()
    .map((target) => ({ key: target, label: target, targets: [target], cards: [], has: true })),
];
if (data.needs.some((needs) => needs.e.some((extra) => normal(extra) === "device-all"))) {
  gpus.push({ key: "all", label: "Every GPU", targets: ["all"], cards: [], has: true });
}
const gpuOf = (key) => gpus.find((gpu) => gpu.key === key);
const gpuName = (gpu) => (gpu.label === gpu.key ? gpu.key : `${gpu.label} (${gpu.key})`);

// The extra of a row for a GPU: the narrowest one. `undefined` if it has none for it.
function extraFor(row, gpu) {
  const extras = deviceExtras(row);
  for (const target of gpu.targets) {
    const extra = extras.find((one) => targetOfExtra(one) === target);
    if (extra) return extra;
  }
  return undefined;
}

// --- Choices ------------------------------------------------------------------------------------

const allTags = [...splitTags.values()];
const systems = SYSTEMS.filter(({ tag }) =>
  allTags.some((tags) => tags.platforms.some((platform) => tag.test(platform))));
if (systems.length === 0) systems.push(SYSTEMS[0], SYSTEMS[3]);
const systemOf = (key) => systems.find((system) => system.key === key);

function compiledFor({ pythons, abis }) {
  return pythons.flatMap((tag) => {
    const match = /^cp3(\d+)$/.exec(tag);
    const own = match ? abis.filter((abi) => abi === tag || abi === `${tag}t`) : [];
    return own.map((abi) => `3.${match[1]}${abi === tag ? "" : "t"}`);
  });
}
const minorOf = (python) => Number.parseInt(python.slice(2), 10);
const pythons = [...new Set(allTags.flatMap(compiledFor))]
  .sort((one, other) => minorOf(one) - minorOf(other) || one.length - other.length);
if (pythons.length === 0) pythons.push("3.10", "3.11", "3.12", "3.13", "3.14");

// What people come for, in this order; then the rest by name.
const FIRST = ["torch", "jax", "jaxlib", "tensorflow", "onnxruntime", "vllm", "flash-attn", "rocm"];
const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);
const mains = [...projects.keys()].filter((name) => !isPart(name) && rowsOf(name).length > 0)
  .sort((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
const packages = mains.length > 0 ? mains : [...projects.keys()];

const unique = (values) => [...new Set(values)];

// A final version comes after its pre-releases.
const ofFinal = (version) => (/[a-z]/.test(version) ? version : `${version}z`);
const byVersion = (one, other) => ofFinal(one).localeCompare(ofFinal(other), "en", { numeric: true });
const rocmOf = (name) =>
  unique(rowsOf(name).map((row) => row.rocm).filter(Boolean)).sort(byVersion).reverse();
const versionsOf = (name, rocm) =>
  unique(rowsOf(name).filter((row) => !rocm || row.rocm === rocm).map((row) => row.version));

// Rows that the chosen package, ROCm and version leave, newest first.
const rowsFor = ({ package: name, rocm, version }) =>
  rowsOf(name).filter((row) =>
    (!rocm || row.rocm === rocm) && (version ? row.version === version : row.yanked === null));

// Why a row is not for a GPU; "" if it is, with all that is installed with it.
const problemFor = (choice, row, changes = {}) => setOf({ ...choice, with: [], ...changes }, row).problem;

const fits = (choice, row) =>
  fitsPython(row, choice.python, systemOf(choice.system)) && problemFor(choice, row) === "";

// The row that installers would take: the newest final one, or else the newest.
function pick(choice) {
  const rows = rowsFor(choice);
  const first = (isPre) => rows.find((row) => row.isPre === isPre && fits(choice, row));
  return first(false) ?? first(true);
}

// Choices that differ in one thing from this one and have something to install.
function nearest(choice) {
  const found = [];
  const tryOther = (key, values, say) => {
    for (const value of values) {
      const other = { ...choice, [key]: value };
      if (value !== choice[key] && pick(other)) found.push({ say: say(value), choice: other });
    }
  };
  tryOther("python", pythons, (python) => `Python ${python}`);
  tryOther("system", systems.map(({ key }) => key), (key) => systemOf(key).label);
  const newest = pick({ ...choice, version: "" })?.version;
  if (choice.version) tryOther("version", [newest], (version) => `${choice.package} ${version}`);
  if (choice.rocm) {
    const other = { ...choice, rocm: "", version: "" };
    if (pick(other)) found.push({ say: `ROCm ${pick(other).rocm || "of another version"}`, choice: other });
  }
  return found.slice(0, 4);
}

// What is missing for a choice, in words.
function holeOf(choice) {
  const system = systemOf(choice.system);
  const rows = rowsFor(choice);
  const rocm = choice.rocm ? ` for ROCm ${choice.rocm}` : "";
  if (rows.length === 0) return `The index has no ${choice.package} ${choice.version}${rocm}.`;
  const [row] = rows.filter((one) => fitsPython(one, choice.python, system));
  if (row) return problemFor(choice, row);
  const what = `${choice.package} ${rows[0].version}`;
  const has = pythons.filter((python) => fitsPython(rows[0], python, system));
  if (has.length === 0) return `There is no ${what} for ${system.label}.`;
  return `There is no ${what} for Python ${choice.python} on ${system.label}. It exists for Python ${has.join(", ")}.`;
}
