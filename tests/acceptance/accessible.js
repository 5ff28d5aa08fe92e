const problems = [];
const isShown = (one) => one.checkVisibility({visibilityProperty: true});
const named = (one) => one.getAttribute("aria-label") || one.labels?.[0]?.innerText || one.innerText
    || document.getElementById(one.getAttribute("aria-labelledby"))?.innerText;
for (const one of document.querySelectorAll("input, select, button, [role=group], section, [tabindex='0']")) {
    if (isShown(one) && !named(one)?.trim()) problems.push(`no name: ${one.outerHTML.slice(0, 120)}`);
}
const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
if (new Set(ids).size !== ids.length) problems.push("an id is there twice");
for (const one of document.querySelectorAll("th")) if (!one.scope) problems.push("a header without scope");
const sheet = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
const canvas = sheet.getContext("2d", {willReadFrequently: true});
const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = (colour) => rgb(colour).slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
        const colour = getComputedStyle(at).backgroundColor;
        if (rgb(colour)[3] === 255) return colour;
    }
    return "white";
};
let least = 21;
for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const isField = one.matches("input[type=search], input[type=url], select");
    if (!(own || isField) || !isShown(one) || one.closest(".sr, noscript, script, style, option")) continue;
    const parts = [light(getComputedStyle(one).color), light(behind(one))].sort((a, b) => b - a);
    const ratio = (parts[0] + 0.05) / (parts[1] + 0.05);
    least = Math.min(least, ratio);
    if (ratio < 4.5 && !one.disabled) problems.push(`contrast ${ratio.toFixed(2)}: ${one.outerHTML.slice(0, 120)}`);
    if (isField) {
        const edge = [light(getComputedStyle(one).borderTopColor), light(behind(one))].sort((a, b) => b - a);
        if ((edge[0] + 0.05) / (edge[1] + 0.05) < 3) problems.push(`edge: ${one.outerHTML.slice(0, 120)}`);
    }
}
for (const one of document.querySelectorAll("button, input, select, label.option")) {
    const box = one.getBoundingClientRect();
    if (isShown(one) && (box.height < 24 || box.width < 24) && (innerWidth < 480 || !one.matches(".option input"))) {
        problems.push(`only ${box.width} × ${box.height}: ${one.outerHTML.slice(0, 120)}`);
    }
}
const level = [...document.querySelectorAll("h1, h2, h3")].filter(isShown).map((one) => Number(one.tagName[1]));
if (level.some((now, at) => at > 0 && now > level[at - 1] + 1)) problems.push("a level of headings is missing");
if (document.documentElement.lang !== "en" || !document.title) problems.push("no language or title");
return {problems, least, wide: document.documentElement.scrollWidth - innerWidth};
