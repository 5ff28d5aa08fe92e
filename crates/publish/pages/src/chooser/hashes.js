// Input: the pages of the index beside this one, which has no room for hashes. Output: the files of
// a set with their addresses and hashes. A browser reads no other page from `file:`.

// By name: the files, `null` while they are read, or the reason why they cannot be.
const pages = new Map();
const ownIndex = new URL(data.index || "./", location.href.split("#")[0]).href;

async function readPage(name) {
  // A copy that the browser kept may list files that were replaced since.
  const answer = await fetch(`${ownIndex}${name}/`, { cache: "no-cache", headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [...page.querySelectorAll("a[href]")].map((link) => {
    const url = new URL(link.getAttribute("href"), answer.url);
    const sha256 = /^#sha256=([0-9a-f]{64})$/.exec(url.hash)?.[1];
    url.hash = "";
    return { file: decodeURIComponent(url.pathname.split("/").pop()), url: url.href, sha256 };
  });
}

// Version and tag of a file; the tag of a source distribution is "".
function partsOf(file) {
  const parts = file.replace(/\.whl$/, "").split("-");
  if (file.endsWith(".whl")) return [parts[1].replaceAll("_", "-"), parts.slice(-3).join("-")];
  return [/-([^-]+)\.(tar\.gz|zip)$/.exec(file)?.[1] ?? "", ""];
}

// `{ problem }`, `{ isReading }`, or `{ files }` by name. `then` is called when pages were read.
function hashedFiles({ python, system, members }, index, then) {
  if (location.protocol === "file:") {
    return { problem: "A browser reads the hashes of an index from a server only: open this page there, or let rocwheel choose --installer write the file." };
  }
  const missing = [...members.keys()].filter((name) => !pages.has(name));
  for (const name of missing) pages.set(name, null);
  const reading = missing.map((name) =>
    readPage(name).catch((error) => `The page of ${name} cannot be read: ${error.message}`)
      .then((found) => pages.set(name, found)));
  if (reading.length > 0) Promise.all(reading).then(then);
  const files = new Map();
  for (const [name, { row }] of members) {
    const page = pages.get(name);
    if (page === null) return { isReading: true };
    if (typeof page === "string") return { problem: page };
    const tags = fittingTags(row, python, system);
    const own = page.filter(({ file }) => {
      const [version, tag] = partsOf(file);
      return tags.includes(tag) && version !== "" && satisfies(version, `==${row.version}`) && satisfies(row.version, `==${version}`);
    });
    const bare = own.find(({ sha256 }) => !sha256);
    if (own.length === 0 || bare) return { problem: `The index has no hash of ${bare?.file ?? nameOf(name, row)}.` };
    // Another address of this index may be typed.
    const from = folderOf(ownIndex);
    files.set(name, own.map((one) =>
      ({ ...one, url: one.url.startsWith(from) ? folderOf(index) + one.url.slice(from.length) : one.url })));
  }
  return { files };
}

function hashedRequirements(made, files, index) {
  const { roots, own, members, isClosed, pre, system } = made;
  const lines = own.map((name) => [`${name}==${members.get(name).row.version}`,
    ...files.get(name).map(({ sha256 }) => `    --hash=sha256:${sha256}`)].join(" \\\n"));
  const then = isClosed ? [] : [["pip install", ...roots.map((root) => word(root, system))].join(" ")];
  const told = chained(["pip install --require-hashes --no-deps --requirement requirements.txt", ...then], system, " ");
  return [`# ${told.replaceAll("\n", "\n# ")}`, `--index-url ${index}`, ...(pre ? ["--pre"] : []), ...lines].join("\n");
}

function pylock({ own, members, system, python }, files) {
  const where = markerOf(system);
  const entry = ({ file, url, sha256 }) =>
    `{ name = ${toml(file)}, url = ${toml(url)}, hashes = { sha256 = ${toml(sha256)} } }`;
  const packages = own.flatMap((name) => {
    const wheels = files.get(name).filter(({ file }) => file.endsWith(".whl"));
    const sources = files.get(name).filter(({ file }) => !file.endsWith(".whl"));
    return [
      "",
      "[[packages]]",
      `name = ${toml(name)}`,
      `version = ${toml(members.get(name).row.version)}`,
      ...(wheels.length > 0 ? ["wheels = [", ...wheels.map((one) => `    ${entry(one)},`), "]"] : [`sdist = ${entry(sources[0])}`]),
    ];
  });
  return [
    `lock-version = "1.0"`,
    `environments = [${toml(where)}]`,
    `requires-python = "==${python.replace("t", "")}.*"`,
    `created-by = "rocwheel"`,
    ...packages,
  ].join("\n");
}
