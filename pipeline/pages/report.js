"use strict";
(() => {
  const browser = document.querySelector(".browser");
  if (!browser) return;
  const find = (selector) => browser.querySelector(selector);
  const samples = Array.from(browser.querySelectorAll(".sample"));
  const names = {
    accepted: "Accepted", rejected: "Rejected", templates: "Rows of templates",
    scripts: "Scripts side by side", instructions: "Instructions",
  };
  const facets = ["reason", "stage", "ability", "scenario", "words", "world", "split", "source"];
  const groups = Object.keys(names).filter((group) => samples.some((one) => one.dataset.group === group));
  const said = new Map();
  let group = groups[0], wanted = {}, words = "", matching = [], at = 0;

  const make = (tag, text, parent) => {
    const made = document.createElement(tag);
    made.textContent = text;
    parent.append(made);
    return made;
  };
  const inGroup = () => samples.filter((one) => one.dataset.group === group);
  const textOf = (one) => {
    if (!said.has(one)) said.set(one, one.textContent.toLowerCase());
    return said.get(one);
  };

  const show = () => {
    samples.forEach((one) => { one.hidden = one !== matching[at]; });
    find(".none").hidden = matching.length > 0;
    find(".place").textContent = matching.length ? `${at + 1} of ${matching.length}` : "0 of 0";
    // Not `disabled`: a button that loses the focus would take the arrow keys with it.
    find(".previous").setAttribute("aria-disabled", String(at === 0));
    find(".next").setAttribute("aria-disabled", String(at + 1 >= matching.length));
  };
  const filter = () => {
    matching = inGroup().filter((one) =>
      Object.entries(wanted).every(([facet, value]) => !value || one.dataset[facet] === value) &&
      (!words || textOf(one).includes(words)));
    at = 0;
    show();
  };
  const move = (step) => {
    at = Math.min(Math.max(at + step, 0), Math.max(matching.length - 1, 0));
    show();
  };

  const offer = () => {
    const filters = find(".filters");
    filters.replaceChildren();
    facets.forEach((facet) => {
      const counts = new Map();
      inGroup().forEach((one) => {
        const value = one.dataset[facet];
        if (value) counts.set(value, (counts.get(value) || 0) + 1);
      });
      if (counts.size < 2) return;
      const label = make("label", facet[0].toUpperCase() + facet.slice(1), filters);
      const select = make("select", "", label);
      select.dataset.facet = facet;
      make("option", "all", select).value = "";
      Array.from(counts).sort().forEach(([value, count]) => {
        make("option", `${value.replaceAll("_", " ")} (${count})`, select).value = value;
      });
      select.value = wanted[facet] || "";
      select.addEventListener("change", () => { wanted[facet] = select.value; filter(); });
    });
    const search = make("input", "", make("label", "Words in it", filters));
    search.type = "search";
    search.value = words;
    search.addEventListener("input", () => { words = search.value.trim().toLowerCase(); filter(); });
  };
  const choose = (chosen, values = {}) => {
    group = chosen;
    wanted = values;
    words = "";
    for (const button of find(".groups").children) {
      button.setAttribute("aria-pressed", String(button.dataset.group === group));
    }
    offer();
    filter();
  };

  groups.forEach((one) => {
    const count = samples.filter((sample) => sample.dataset.group === one).length;
    const button = make("button", `${names[one]} (${count})`, find(".groups"));
    button.type = "button";
    button.dataset.group = one;
    button.addEventListener("click", () => choose(one));
  });
  find(".previous").addEventListener("click", () => move(-1));
  find(".next").addEventListener("click", () => move(1));
  browser.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, pre") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowLeft") move(-1);
    if (event.key === "ArrowRight") move(1);
  });
  document.querySelectorAll("a[data-reason]").forEach((link) => {
    link.addEventListener("click", () => choose("rejected", { reason: link.dataset.reason }));
  });
  choose(groups[0]);
})();
