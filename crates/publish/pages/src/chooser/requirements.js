// Input: versions, specifiers and markers as packages have them. Output: whether they fit.

const VERSION = new RegExp(
  "^v?(?:(\\d+)!)?(\\d+(?:\\.\\d+)*)" // epoch, release
  + "(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?(\\d*))?"
  + "(?:-(\\d+)|[-_.]?(post|rev|r)[-_.]?(\\d*))?"
  + "(?:[-_.]?(dev)[-_.]?(\\d*))?"
  + "(?:\\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$",
);

// The parts of a version in the order in which PEP 440 compares them. A part that is absent comes
// before or after all others.
function readVersion(text) {
  const match = VERSION.exec(text.trim().toLowerCase());
  if (!match) return null;
  const [, epoch, release, preWord, preNumber, bare, postWord, postNumber, dev, devNumber, local] = match;
  const hasPost = bare !== undefined || postWord !== undefined;
  let pre = [Infinity, 0];
  if (preWord) pre = [{ a: 0, alpha: 0, b: 1, beta: 1 }[preWord] ?? 2, Number(preNumber || 0)];
  else if (dev && !hasPost) pre = [-Infinity, 0];
  return {
    epoch: Number(epoch || 0),
    release: release.split(".").map(Number),
    pre,
    post: hasPost ? Number(bare ?? (postNumber || 0)) : -Infinity,
    dev: dev ? Number(devNumber || 0) : Infinity,
    local: local ? local.split(/[-_.]/) : [],
    isPre: Boolean(preWord || dev),
  };
}

const knownVersions = new Map();
function versionOf(text) {
  if (!knownVersions.has(text)) knownVersions.set(text, readVersion(text));
  return knownVersions.get(text);
}

function compareReleases(one, other) {
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

// Numbers come after words, and a longer local version after its beginning.
function compareLocals(one, other) {
  for (let at = 0; at < Math.max(one.length, other.length); at += 1) {
    const [left, right] = [one[at], other[at]];
    if (left === undefined || right === undefined) return left === undefined ? -1 : 1;
    const areNumbers = [left, right].map((part) => /^\d+$/.test(part));
    if (areNumbers[0] !== areNumbers[1]) return areNumbers[0] ? 1 : -1;
    if (areNumbers[0] && Number(left) !== Number(right)) return Number(left) - Number(right);
    if (!areNumbers[0] && left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

function comparePublic(one, other) {
  if (one.epoch !== other.epoch) return one.epoch - other.epoch;
  const difference = compareReleases(one.release, other.release);
  if (difference !== 0) return difference;
  const parts = [[one.pre[0], other.pre[0]], [one.pre[1], other.pre[1]], [one.post, other.post], [one.dev, other.dev]];
  const unequal = parts.find(([left, right]) => left !== right);
  return unequal ? (unequal[0] < unequal[1] ? -1 : 1) : 0;
}

const beginsWith = (version, epoch, release) =>
  version.epoch === epoch && release.every((part, at) => (version.release[at] ?? 0) === part);

// One clause of a specifier. One that cannot be read excludes nothing.
function satisfiesClause(text, clause) {
  const match = /^\s*(===|~=|==|!=|<=|>=|<|>)\s*([^\s*]+?)(\.\*)?\s*$/.exec(clause);
  const version = versionOf(text);
  const wanted = match && versionOf(match[2]);
  if (!wanted || !version) return true;
  const [, operator, , star] = match;
  const difference = comparePublic(version, wanted);
  const isSameRelease = version.epoch === wanted.epoch && compareReleases(version.release, wanted.release) === 0;
  const isSamePre = version.pre.every((part, at) => part === wanted.pre[at]);
  const isEqual = star
    ? beginsWith(version, wanted.epoch, wanted.release)
    : difference === 0 && (wanted.local.length === 0 || compareLocals(version.local, wanted.local) === 0);
  switch (operator) {
    case ">=": return difference >= 0;
    case "<=": return difference <= 0;
    case ">": return difference > 0 && !(isSameRelease && isSamePre && version.post > -Infinity && wanted.post === -Infinity);
    case "<": return difference < 0 && !(isSameRelease && version.isPre && !wanted.isPre);
    case "~=": return difference >= 0 && beginsWith(version, wanted.epoch, wanted.release.slice(0, -1));
    case "!=": return !isEqual;
    default: return isEqual;
  }
}

const satisfies = (version, specifier) =>
  specifier.split(",").every((clause) => satisfiesClause(version, clause));

// The version of `==7.2.0`; undefined for a specifier that leaves a choice.
const pinOf = (specifier) => /^===?([^,*]+)$/.exec(specifier)?.[1];

// Variables of markers that are known of a choice. The patch release of the user's Python is not.
const environmentOf = (python, system) => ({
  python_version: python.replace("t", ""),
  implementation_name: "cpython",
  platform_python_implementation: "CPython",
  os_name: system.platform === "win32" ? "nt" : "posix",
  sys_platform: system.platform,
  platform_system: { linux: "Linux", win32: "Windows", darwin: "Darwin" }[system.platform],
  ...(system.machine ? { platform_machine: system.machine } : {}),
});

const MARKER = /\s*(\(|\)|'[^']*'|"[^"]*"|===|~=|==|!=|<=|>=|<|>|not\s+in\b|[\w.]+)/y;

function markerWords(marker) {
  const words = [];
  MARKER.lastIndex = 0;
  while (MARKER.lastIndex < marker.length) {
    const match = MARKER.exec(marker);
    if (!match) return null;
    words.push(match[1].replace(/\s+/g, " "));
  }
  return words;
}

function compareTexts(left, operator, right) {
  switch (operator) {
    case "==": case "===": return left === right;
    case "!=": return left !== right;
    case "in": return right.includes(left);
    case "not in": return !right.includes(left);
    case "<": return left < right;
    case "<=": return left <= right;
    case ">": return left > right;
    default: return left >= right;
  }
}

const MIRRORED = { "<": ">", "<=": ">=", ">": "<", ">=": "<=" };

// A comparison with a variable that is not known holds: it is better to know too many packages.
function isTrue([first, operator, second], environment, extras) {
  const isText = (word) => /^['"]/.test(word);
  const valueOf = (word) => (isText(word) ? word.slice(1, -1) : environment[word]);
  const variable = isText(first) ? second : first;
  const [left, right] = [valueOf(first), valueOf(second)];
  if (variable === "extra") {
    const isAsked = extras.includes(normal((isText(first) ? left : right) ?? ""));
    return operator === "!=" ? !isAsked : isAsked;
  }
  if (left === undefined || right === undefined) return true;
  if (variable === "python_version" && !operator.endsWith("in")) {
    return isText(first)
      ? satisfiesClause(right, `${MIRRORED[operator] ?? operator}${left}`)
      : satisfiesClause(left, `${operator}${right}`);
  }
  return compareTexts(left, operator, right);
}

// Whether a marker of PEP 508 holds. One that cannot be read does.
function applies(marker, environment, extras) {
  const words = marker ? markerWords(marker) : [];
  if (words === null || words.length === 0) return true;
  let at = 0;
  const readAlternatives = () => {
    let value = readTerms();
    while (words[at] === "or") {
      at += 1;
      value = readTerms() || value;
    }
    return value;
  };
  const readTerms = () => {
    let value = readTerm();
    while (words[at] === "and") {
      at += 1;
      value = readTerm() && value;
    }
    return value;
  };
  const readTerm = () => {
    if (words[at] === "(") {
      at += 1;
      const value = readAlternatives();
      at += 1;
      return value;
    }
    at += 3;
    return at > words.length || isTrue(words.slice(at - 3, at), environment, extras);
  };
  const value = readAlternatives();
  return at === words.length ? value : true;
}
