// Input: a choice and the row that it begins with. Output: all packages that are installed with it,
// each in one version, and why there is no such set.

const ROUNDS = 20;

// The specifier of a need in the words of its distribution.
function specifierOf([, , , specifier], row) {
  return specifier
    .replaceAll("{v}", row.version)
    .replaceAll("{l}", row.version.includes("+") ? `+${row.version.split("+")[1]}` : "")
    .replaceAll("{r}", row.rocm);
}

// A name that another index must not provide: a part of ROCm, code for a GPU, or a package that
// only a build of this ROCm can be.
const isOfSet = (name, specifier) =>
  /^rocm(-|$)/.test(name) || targetOfName(name) !== "" || (pinOf(specifier)?.includes("+") ?? false);

function candidatesOf(name, wanted, { python, system }) {
  const pins = wanted.map(({ specifier }) => pinOf(specifier)).filter(Boolean);
  const rows = pins.map((pin) => rowsOfVersion(name, pin)).find((some) => some.length > 0) ?? rowsOf(name);
  return rows.filter((row) =>
    fitsPython(row, python, system)
    && (row.yanked === null || pins.length > 0)
    && wanted.every(({ specifier }) => satisfies(row.version, specifier)));
}

// The newest row of the same ROCm, and a final one before others.
function chosenRow(name, wanted, where) {
  const rows = candidatesOf(name, wanted, where);
  const same = rows.filter((row) => row.rocm === where.rocm);
  const from = same.length > 0 ? same : rows;
  return from.find((row) => !row.isPre) ?? from[0];
}

const nameOf = (name, row) => `${name} ${row.version}`;

// Why a requirement has no package here.
function absence({ name, by, extra, specifier }, isThere, { python, system }) {
  if (extra) return `${by} promises “${extra}”, but ${name} is not in the index.`;
  const what = `${by} requires ${name}${specifier}`;
  if (isThere) return `${what}, which the index does not have for Python ${python} on ${system.label}.`;
  return `${what}, which is not in the index. A package of that name from another index may be anything.`;
}

// One look at all packages, with the versions that the requirements `known` leave.
class Walk {
  constructor(roots, where, known) {
    this.where = where;
    this.known = known;
    this.members = new Map();
    this.foreign = new Set();
    this.wanted = new Map();
    this.problems = [];
    this.fixed = new Map(roots.map(({ name, row }) => [name, row]));
    this.environment = environmentOf(where.python, where.system);
    this.queue = roots.map(({ name, extras }) => ({ name, extras, specifier: "" }));
    while (this.queue.length > 0) {
      this.visit(this.queue.shift());
      if (this.queue.length === 0 && where.gpu) this.askForGpu();
    }
  }

  visit(need) {
    const { name, extras, specifier, by } = need;
    if (rowsOf(name).length === 0) {
      this.foreign.add(name);
      if (isOfSet(name, specifier)) this.problems.push(absence(need, false, this.where));
      return;
    }
    if (specifier) this.wanted.set(name, [...(this.wanted.get(name) ?? []), { specifier, by }]);
    let member = this.members.get(name);
    if (!member) {
      const row = this.fixed.get(name) ?? chosenRow(name, this.known.get(name) ?? [], this.where);
      if (!row) {
        this.problems.push(absence(need, true, this.where));
        return;
      }
      const target = targetOfName(name);
      if (this.where.gpu && target && !this.where.gpu.targets.some((one) => one === target || one === "all")) {
        this.problems.push(`${by ?? name} brings ${name}, which is not for ${gpuName(this.where.gpu)}.`);
      }
      member = { row, extras: new Set(), seen: new Set(), device: undefined };
      this.members.set(name, member);
    }
    for (const extra of extras) member.extras.add(normal(extra));
    this.follow(name, member);
  }

  follow(name, { row, extras, seen }) {
    for (const need of row.needs.r) {
      if (seen.has(need) || !applies(need[2], this.environment, [...extras])) continue;
      seen.add(need);
      const [required, its, marker] = need;
      const extra = applies(marker, this.environment, []) ? undefined
        : deviceExtras(row).find((one) => applies(marker, this.environment, [normal(one)]));
      this.queue.push({
        name: required, extras: its, specifier: specifierOf(need, row), by: nameOf(name, row), extra,
      });
    }
  }

  // Every package that is divided by GPU is asked for its part for this one.
  askForGpu() {
    const { gpu } = this.where;
    for (const [name, member] of this.members) {
      if (member.device !== undefined || deviceExtras(member.row).length === 0) continue;
      member.device = extraFor(member.row, gpu) ?? "";
      if (member.device === "") {
        this.problems.push(`${nameOf(name, member.row)} has no packages for ${gpuName(gpu)}.`);
      } else if (!member.extras.has(normal(member.device))) {
        member.isRoot = true;
        this.queue.push({ name, extras: [member.device], specifier: "" });
        // The part of one package may ask for those of others.
        return;
      }
    }
  }

  // Names that a line has to have besides its roots: those with a part for the GPU, and those of
  // which an installer could take the version for another ROCm.
  askedFor() {
    const isOpen = (name, { row }) => row.rocm !== ""
      && candidatesOf(name, this.wanted.get(name) ?? [], this.where).some((one) => one.version !== row.version);
    return [...this.members].filter(([name, member]) => member.isRoot || isOpen(name, member)).map(([name]) => name);
  }

  contradictions() {
    return [...this.fixed].flatMap(([name, row]) =>
      (this.wanted.get(name) ?? [])
        .filter(({ specifier }) => !satisfies(row.version, specifier))
        .map(({ specifier, by }) => `${by} requires ${name}${specifier}, and ${row.version} is chosen.`));
  }
}

// The set that roots lead to. Requirements decide about versions, and versions about requirements,
// so it is looked at until nothing changes.
function resolve(roots, where) {
  let known = new Map();
  let before = "";
  for (let round = 0; round < ROUNDS; round += 1) {
    const walk = new Walk(roots, where, known);
    const text = JSON.stringify([...walk.wanted]);
    if (text === before) {
      const [problem = ""] = [...walk.contradictions(), ...walk.problems];
      return { members: walk.members, foreign: [...walk.foreign].sort(), asked: walk.askedFor(), problem };
    }
    before = text;
    known = walk.wanted;
  }
  return { members: new Map(), foreign: [], asked: [], problem: `The requirements of ${roots[0].name} contradict each other.` };
}

const rootOf = (name, row) =>
  ({ name, row, extras: name === "rocm" && row.needs.e.includes("libraries") ? ["libraries"] : [] });

// The set of a choice, with the companions that are ticked.
function setOf(choice, row) {
  const key = [choice.package, choice.python, choice.system, choice.gpu, ...choice.with].join(" ");
  if (!row.sets.has(key)) row.sets.set(key, makeSet(choice, row));
  return row.sets.get(key);
}

function makeSet(choice, row) {
  const where = {
    python: choice.python, system: systemOf(choice.system), gpu: gpuOf(choice.gpu), rocm: row.rocm,
  };
  const others = companionsOf(choice, row).filter(({ name }) => choice.with.includes(name));
  const roots = [{ name: choice.package, row }, ...others].map((one) => rootOf(one.name, one.row));
  const { members, foreign, asked, problem } = resolve(roots, where);
  const names = unique([...roots.map(({ name }) => name), ...asked.sort()]);
  return {
    roots: names.filter((name) => members.has(name)).map((name) => {
      const member = members.get(name);
      const own = roots.find((root) => root.name === name)?.extras ?? [];
      return { name, version: member.row.version, extras: unique([...(member.device ? [member.device] : []), ...own]) };
    }),
    members,
    foreign,
    problem,
    isDivided: [...members.values()].some((member) => deviceExtras(member.row).length > 0),
  };
}

// Packages that are made for the chosen one and for the same ROCm: torchvision for torch.
function companionsOf(choice, row) {
  if (choice.package === "rocm") return [];
  const system = systemOf(choice.system);
  const suits = (name) => (one) =>
    one.rocm === row.rocm && one.yanked === null && fitsPython(one, choice.python, system)
    && one.needs.r.some((need) =>
      need[0] === choice.package && need[2] === "" && satisfies(row.version, specifierOf(need, one)));
  return packages
    .filter((name) => name !== choice.package)
    .map((name) => ({ name, row: rowsOf(name).find(suits(name)) }))
    .filter((one) => one.row !== undefined);
}
