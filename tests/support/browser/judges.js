// What the judges run in a page. An expression: an object of functions that take one argument.
({
  async runAxe([only, within, without]) {
    const found = await axe.run(within || document, {
      runOnly: only,
      rules: Object.fromEntries(without.map((rule) => [rule, {enabled: false}])),
      resultTypes: ["violations"],
    });
    return found.violations;
  },

  // What reaches beyond the window, and is not within something that scrolls by itself.
  findWide() {
    const root = document.documentElement;
    const width = root.clientWidth;
    if (root.scrollWidth <= width) return [];
    const scrolls = (one) => {
      for (let up = one.parentElement; up && up !== root; up = up.parentElement) {
        if (getComputedStyle(up).overflowX !== "visible") return true;
      }
      return false;
    };
    return [...document.body.querySelectorAll("*")]
      .filter((one) => one.getBoundingClientRect().right > width + 1 && !scrolls(one))
      .slice(0, 10)
      .map((one) => `<${one.localName} class="${one.getAttribute("class") || ""}"> ends at ` +
        `${Math.round(one.getBoundingClientRect().right)} px`)
      .concat(`the page is ${root.scrollWidth} px wide in a window of ${width} px`);
  },

  // Links within a sentence are as high as their line, and what labels something is pressed as well as that.
  findSmall([finger, legible]) {
    const told = [];
    const pressed = "button, input, select, textarea, summary, a[href], [role=button]";
    const typed = "select, textarea, input:not([type=checkbox], [type=radio], [type=submit], [type=button])";
    for (const one of document.querySelectorAll(pressed)) {
      if (one.disabled || one.closest(".vh")) continue;
      if (!one.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
      const own = one.getBoundingClientRect();
      const boxes = [own, ...[...(one.labels || [])].map((label) => label.getBoundingClientRect())];
      const width = Math.max(...boxes.map((box) => box.width));
      const height = Math.max(...boxes.map((box) => box.height));
      if (own.right < 0 || own.bottom < 0) continue; // a skip link that waits outside
      const style = getComputedStyle(one);
      const words = one.innerText || one.getAttribute("aria-label") || one.name || one.id || "";
      const name = `<${one.localName}> ${words.trim().slice(0, 40)}`;
      const isInText = one.localName === "a" && style.display === "inline";
      if (!isInText && (width < finger - 0.5 || height < finger - 0.5)) {
        told.push(`${name}: ${Math.round(width)} × ${Math.round(height)} px`);
      }
      if (one.matches(typed) && parseFloat(style.fontSize) < legible) told.push(`${name}: text of ${style.fontSize}`);
    }
    return told;
  },
})
