// Draws the receipt and links sentences, chips, bar and cards. TAGS is filled in from components/safe.py.
const TAGS = new Set(/* TAGS */);
function draw(markup) {
  const page = new DOMParser().parseFromString(markup, "text/html");
  for (const node of [...page.body.querySelectorAll("*")]) {
    if (!TAGS.has(node.localName)) { node.remove(); continue; }
    for (const {name} of [...node.attributes])
      if (name.startsWith("on") || name === "src" || name === "srcset") node.removeAttribute(name);
  }
  return [...page.body.childNodes];
}
export default function ({ data, parentElement, setTriggerValue }) {
  let root = parentElement.querySelector(".rc");
  if (!root) { root = document.createElement("div"); root.className = "rc"; parentElement.appendChild(root); }
  if (root.dataset.version !== data.version) {
    const open = [...root.querySelectorAll("details")].map(d => d.open);
    root.replaceChildren(...draw(data.markup));
    if (root.dataset.turn === data.turn)
      root.querySelectorAll("details").forEach((d, i) => { if (i in open) d.open = open[i]; });
    root.dataset.version = data.version; root.dataset.turn = data.turn;
    root.pinned = null;
  }
  const numbers = node => (node && node.dataset.ns ? node.dataset.ns.split(" ") : []);
  const holder = event => event.target.closest ? event.target.closest("[data-ns]") : null;
  const light = node => {
    const ns = numbers(node);
    root.classList.toggle("linking", ns.length > 0);
    for (const other of root.querySelectorAll("[data-ns]"))
      other.classList.toggle("lit", ns.length > 0 && numbers(other).some(n => ns.includes(n)));
  };
  const rest = () => light(root.pinned && root.contains(root.pinned) ? root.pinned : null);
  root.onmouseover = event => { const node = holder(event); node ? light(node) : rest(); };
  root.onmouseleave = rest;
  root.onfocusin = null;
  if (!root.wired) {
    root.wired = true;
    root.addEventListener("focusin", event => { const node = holder(event); if (node && node.matches(":focus-visible")) root.lightNow(node); });
    root.addEventListener("focusout", () => root.restNow());
  }
  root.lightNow = light; root.restNow = rest;
  root.onclick = event => {
    const page = event.target.closest("[data-page]");
    if (page) { setTriggerValue("page", Number(page.dataset.page)); return; }
    const node = holder(event);
    if (!node) { root.pinned = null; rest(); return; }
    if (node.dataset.kind === "card") return;
    root.pinned = root.pinned === node ? null : node;
    rest();
    if (root.pinned) {
      const card = root.querySelector(`#card-${numbers(node)[0]}`);
      if (card) {
        const fold = card.closest("details"); if (fold) fold.open = true;
        card.scrollIntoView({ block: "nearest", behavior: matchMedia("(prefers-reduced-motion:reduce)").matches ? "auto" : "smooth" });
      }
    }
  };
  root.onkeydown = event => {
    if (event.key === "Escape") { root.pinned = null; rest(); }
    if ((event.key === "Enter" || event.key === " ") && event.target.dataset.kind === "sentence") { event.preventDefault(); event.target.click(); }
  };
}
