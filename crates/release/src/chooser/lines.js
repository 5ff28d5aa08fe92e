// Input: a choice and the row that fits it. Output: what to type or write into a file.

const PYPI = "https://pypi.org/simple/";

const INSTALLERS = [
  ["pip", "pip"],
  ["uv", "uv pip"],
  ["uv-project", "uv project"],
  ["requirements", "requirements.txt"],
  ["docker", "Dockerfile"],
  ...(data.findLinks === null ? [] : [["find-links", "pip, one page"]]),
];

// A word of a POSIX shell, or of PowerShell and cmd.
function word(text, system) {
  if (/^[\w@%+=:,./-]+$/.test(text) && !(system?.platform === "win32" && text.includes("%"))) return text;
  if (system?.platform === "win32") return `"${text.replace(/["`$]/g, "")}"`;
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function command(words, options, system) {
  const quoted = options.map((option) => option.map((part) => word(part, system)).join(" "));
  if (system?.platform === "win32") return [words, ...quoted].join(" ");
  return [words, ...quoted].join(" \\\n    ");
}

// A string of TOML.
const toml = (text) => JSON.stringify(text).replaceAll("\u007f", "\\u007f");

function rootsOf(choice, row, isClosed) {
  const gpu = gpuOf(choice.gpu);
  const root = (name, own, pinned) => {
    const extras = [];
    if (name === "rocm" && own.needs.e.includes("libraries")) extras.push("libraries");
    const device = gpu && extraFor(own, gpu);
    if (device) extras.push(device);
    return { name, extras, version: pinned ? own.version : "" };
  };
  const companions = companionsOf(choice, row).filter((name) => choice.with.includes(name));
  const system = systemOf(choice.system);
  return [
    root(choice.package, row, true),
    ...companions.map((name) => {
      const own = rowsOf(name).find((one) =>
        one.rocm === row.rocm && one.yanked === null && fitsPython(one, choice.python, system));
      return root(name, own, !isClosed);
    }),
  ];
}

const requirement = ({ name, extras, version }) =>
  `${name}${extras.length > 0 ? `[${extras.join(",")}]` : ""}${version ? `==${version}` : ""}`;

// A stream of pre-releases needs no word; one with final versions beside them does.
function needsPre(row, own) {
  const isPre = (one) => one.isPre || /(a|b|rc|\.dev)\d/.test(row.rocm.split("+")[0]);
  return isPre(row) && own.some((name) => {
    const rows = rowsOf(name);
    return rows.some((one) => one.isPre) && rows.some((one) => !one.isPre);
  });
}

function plan(choice, row) {
  const system = systemOf(choice.system);
  const reach = (roots) => closure(roots, row.rocm, system);
  const isClosed = reach(rootsOf(choice, row, true)).foreign.length === 0;
  const roots = rootsOf(choice, row, isClosed);
  const { own, foreign } = reach(roots);
  return { roots, own, foreign, isClosed, pre: needsPre(row, own), system, python: choice.python };
}

const pipOptions = ({ isClosed, pre }, index) => [
  ["--index-url", index],
  ...(isClosed ? [] : [["--extra-index-url", PYPI]]),
  ...(pre ? [["--pre"]] : []),
];

function pyproject(made, index) {
  const { roots, own, system, python, pre } = made;
  const direct = new Map(own.map((name) => [name, name]));
  for (const root of roots) direct.set(root.name, requirement(root));
  const where = [`sys_platform == '${system.platform}'`];
  if (system.machine) where.push(`platform_machine == '${system.machine}'`);
  return [
    "[project]",
    `name = "my-project"`,
    `version = "0.1.0"`,
    `requires-python = "==${python.replace("t", "")}.*"`,
    "dependencies = [",
    ...[...direct.values()].map((text) => `    ${toml(text)},`),
    "]",
    "",
    "[tool.uv]",
    `environments = [${toml(where.join(" and "))}]`,
    ...(pre ? [`prerelease = "allow"`] : []),
    "",
    "[[tool.uv.index]]",
    `name = "rocm"`,
    `url = ${toml(index)}`,
    "explicit = true",
    "",
    "[tool.uv.sources]",
    ...[...direct.keys()].map((name) => `${name} = { index = "rocm" }`),
  ].join("\n");
}

function dockerfile(made, index) {
  const isFile = index.startsWith("file:");
  const inside = isFile ? `file:///srv/packages/${data.index}` : index;
  const options = [...pipOptions(made, inside), made.roots.map(requirement)];
  return [
    ...(isFile ? ["# docker build --file Dockerfile FOLDER-OF-THIS-PAGE"] : []),
    `FROM python:${made.python.replace("t", "")}-slim`,
    ...(isFile ? ["COPY . /srv/packages/"] : []),
    `RUN ${command("pip install --no-cache-dir", options, null)}`,
  ].join("\n");
}

// `{ text, file, notes }`: what to copy, the file that it belongs in, and what to know.
function linesFor(choice, row, index) {
  const made = plan(choice, row);
  const words = made.roots.map(requirement);
  const notes = [];
  if (row.yanked !== null) notes.push(`This version was withdrawn${row.yanked ? `: ${row.yanked}` : "."}`);
  const others = made.foreign.slice(0, 5).join(", ") + (made.foreign.length > 5 ? " and others" : "");
  const isPip = ["pip", "requirements", "docker"].includes(choice.installer);
  if (!made.isClosed && isPip) {
    notes.push(`Not in this index: ${others}. pip takes them from PyPI, and looks there for all other packages too: only the pins keep them apart. uv keeps them apart by index.`);
  } else if (!made.isClosed && choice.installer !== "find-links") {
    notes.push(`Not in this index: ${others}. uv takes them from PyPI.`);
  }
  let text;
  let file = "";
  switch (choice.installer) {
    case "uv": {
      const flag = made.isClosed ? "--default-index" : "--index";
      const options = [[flag, index], ...(made.pre ? [["--prerelease", "allow"]] : []), words];
      text = command("uv pip install", options, made.system);
      break;
    }
    case "uv-project":
      text = pyproject(made, index);
      file = "pyproject.toml";
      notes.push("Then run: uv sync. Packages of this index are named one by one, because uv applies an explicit index to named packages only.");
      break;
    case "requirements":
      text = [...pipOptions(made, index).map((option) => option.join(" ")), ...words].join("\n");
      file = "requirements.txt";
      break;
    case "docker":
      text = dockerfile(made, index);
      file = "Dockerfile";
      if (made.system.platform !== "linux") notes.push("Containers run Linux: choose Linux as the system.");
      break;
    case "find-links": {
      const page = new URL(data.findLinks, folderOf(index)).href;
      const options = [["--no-index"], ["--find-links", page], ...(made.pre ? [["--pre"]] : []), words];
      text = command("pip install", options, made.system);
      if (!made.isClosed) notes.push(`Not in this index: ${others}. Without another index pip does not find them.`);
      break;
    }
    default:
      text = command("pip install", [...pipOptions(made, index), words], made.system);
  }
  return { text, file, notes, made };
}

// The folder of this page, from the address of the index below it.
const folderOf = (index) => (index.endsWith(data.index) ? index.slice(0, index.length - data.index.length) : index);
