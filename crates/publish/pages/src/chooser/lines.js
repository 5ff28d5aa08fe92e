// Input: a choice and the row that fits it. Output: what to type or write into a file.
//
// Among several indexes pip takes the highest version, and of equal versions the highest build tag,
// whatever a pin says. So no line names another index beside this one for pip: the first line takes
// all packages of this index from it alone, and the second one what is still missing.

const INSTALLERS = [
  ["pip", "pip"],
  ["uv", "uv pip"],
  ["uv-project", "uv project"],
  ["requirements", "requirements.txt"],
  ["hashes", "with hashes"],
  ["pylock", "pylock.toml"],
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
  const { roots, members, foreign } = setOf(choice, row);
  const own = [...members.keys()].sort();
  const pinned = (name) => `${name}==${members.get(name).row.version}`;
  return {
    roots: roots.map(requirement),
    all: own.map(pinned),
    rest: own.filter((name) => !roots.some((root) => root.name === name)).map(pinned),
    own,
    foreign,
    isClosed: foreign.length === 0,
    pre: needsPre(row, own),
    system: systemOf(choice.system),
    python: choice.python,
    members,
  };
}

// The commands of pip after `start`; `from` are the options that name this index.
function pipCommands(made, start, from, system) {
  const { isClosed, pre } = made;
  const [roots, all] = [made.roots, made.all].map((words) => words.map((one) => [one]));
  if (isClosed) return [command(start, [...from, ...(pre ? [["--pre"]] : []), ...roots], system)];
  return [command(`${start} --no-deps`, [...from, ...all], system), command(start, roots, system)];
}

// The second command is safe only after the first. Windows PowerShell knows no `&&`.
function chained(commands, system, space) {
  return commands.join(system.platform === "win32" ? "\n" : ` &&${space}`);
}

function requirementsFile({ roots, all, isClosed, pre, system }, index) {
  const option = ["--index-url", index].join(" ");
  if (isClosed) return [option, ...(pre ? ["--pre"] : []), ...roots].join("\n");
  const first = "pip install --no-deps --requirement requirements.txt";
  const second = ["pip install", ...roots.map((root) => word(root, system))].join(" ");
  const told = chained([first, second], system, " ").replaceAll("\n", "\n# ");
  return [`# ${told}`, option, ...all].join("\n");
}

function markerOf({ platform, machine }) {
  return `sys_platform == '${platform}'${machine ? ` and platform_machine == '${machine}'` : ""}`;
}

function pyproject(made, index) {
  const { roots, rest, own, system, python, pre } = made;
  return [
    "[project]",
    `name = "my-project"`,
    `version = "0.1.0"`,
    `requires-python = "==${python.replace("t", "")}.*"`,
    "dependencies = [",
    ...[...roots, ...rest].map((text) => `    ${toml(text)},`),
    "]",
    "",
    "[tool.uv]",
    `environments = [${toml(markerOf(system))}]`,
    ...(pre ? [`prerelease = "allow"`] : []),
    "",
    "[[tool.uv.index]]",
    `name = "rocm"`,
    `url = ${toml(index)}`,
    "explicit = true",
    "",
    "[tool.uv.sources]",
    ...own.map((name) => `${name} = { index = "rocm" }`),
  ].join("\n");
}

function dockerfile(made, index) {
  const isFile = index.startsWith("file:");
  const inside = isFile ? `file:///srv/packages/${data.index}` : index;
  const commands = pipCommands(made, "pip install --no-cache-dir", [["--index-url", inside]], null);
  return [
    ...(isFile ? ["# docker build --file Dockerfile FOLDER-OF-THIS-PAGE"] : []),
    `FROM python:${made.python.replace("t", "")}-slim`,
    ...(isFile ? ["COPY . /srv/packages/"] : []),
    ...commands.map((line) => `RUN ${line}`),
  ].join("\n");
}

// `{ text, file, notes }`: what to copy, the file that it belongs in, and what to know; `{ problem }`
// or `{ isReading }` without a text. `then` is called when hashes were read.
function linesFor(choice, row, index, then) {
  const made = plan(choice, row);
  const notes = notesOf(choice, row, made);
  let text;
  let file = "";
  switch (choice.installer) {
    case "hashes":
    case "pylock": {
      const isLock = choice.installer === "pylock";
      if (isLock && !made.isClosed) {
        return { problem: `A lock names every file, and this index has no ${made.foreign.join(", ")}: rocwheel choose --installer pylock asks the other index as well.` };
      }
      const { files, ...other } = hashedFiles(made, index, then);
      if (!files) return other;
      text = isLock ? pylock(made, files) : hashedRequirements(made, files, index);
      file = isLock ? "pylock.toml" : "requirements.txt";
      if (isLock) notes.push("Then run: uv pip install --preview-features pylock -r pylock.toml");
      break;
    }
    case "uv": {
      // An index in UV_INDEX would come before the default one. `--index` takes its place.
      const closed = made.isClosed ? [["--default-index", index]] : [];
      const options = [["--index", index], ...closed, ["--index-strategy", "first-index"], ...(made.pre ? [["--prerelease", "allow"]] : [])];
      text = command("uv pip install", [...options, ...made.roots.map((one) => [one])], made.system);
      break;
    }
    case "uv-project":
      text = pyproject(made, index);
      file = "pyproject.toml";
      break;
    case "requirements":
      text = requirementsFile(made, index);
      file = "requirements.txt";
      break;
    case "docker":
      text = dockerfile(made, index);
      file = "Dockerfile";
      break;
    case "find-links": {
      const page = new URL(data.findLinks, folderOf(index)).href;
      const commands = pipCommands(made, "pip install", [["--no-index"], ["--find-links", page]], made.system);
      text = chained(commands, made.system, " \\\n");
      break;
    }
    default:
      text = chained(pipCommands(made, "pip install", [["--index-url", index]], made.system), made.system, " \\\n");
  }
  return { text, file, notes };
}

function notesOf(choice, row, made) {
  const { foreign, members, own, isClosed, system } = made;
  const notes = [];
  if (row.yanked !== null) notes.push(`This version was withdrawn${row.yanked ? `: ${row.yanked}` : "."}`);
  const isDivided = [...members.values()].some((member) => member.device);
  if (choice.gpu && !isDivided) {
    notes.push(`${nameOf(choice.package, row)} has no packages for each GPU: this page cannot tell whether it has code for ${gpuName(gpuOf(choice.gpu))}.`);
  }
  if (!isClosed) {
    const others = foreign.slice(0, 5).join(", ") + (foreign.length > 5 ? " and others" : "");
    const isUv = choice.installer.startsWith("uv");
    notes.push(isUv
      ? `Not in this index: ${others}. uv takes them from PyPI, and every package that this index has from this index only.`
      : `Not in this index: ${others}. The first command takes all others from this index alone; the second finds them installed and takes what is missing from PyPI.`);
  }
  if (!isClosed && system.platform === "win32" && ["pip", "requirements", "find-links"].includes(choice.installer)) {
    notes.push("Run the second command only after the first has succeeded.");
  }
  const sources = own.filter((name) => fittingTags(members.get(name).row, choice.python, system).every((tag) => tag === ""));
  if (sources.length > 0 && !choice.installer.startsWith("uv") && !projects.has("setuptools")) {
    notes.push(`pip builds ${sources.join(", ")} from source, and this index has no setuptools for it: use uv, or install what the build needs and add --no-build-isolation.`);
  }
  if (choice.installer === "uv-project") {
    notes.push("Then run: uv sync. Packages of this index are named one by one, because uv applies an explicit index to named packages only.");
  }
  if (choice.installer === "docker" && system.platform !== "linux") {
    notes.push("Containers run Linux: choose Linux as the system.");
  }
  return notes;
}

// The folder of this page, from the address of the index below it.
const folderOf = (index) => (index.endsWith(data.index) ? index.slice(0, index.length - data.index.length) : index);
