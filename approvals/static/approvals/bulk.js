/* Many requests together: tick all, tick up to here, and how many are ticked.
   All of it is a shortcut: without it the page works. What is said stands in the page, in the reader's language. */
(() => {
  "use strict";

  const form = document.querySelector("[data-bulk]");
  if (!form) return;
  const boxes = [...form.querySelectorAll('input[name="pick"]:not(:disabled)')];
  const all = form.querySelector("[data-pick-all]");
  const told = form.querySelector("[data-picked]");
  let last = null;

  function count() {
    const n = boxes.filter((box) => box.checked).length;
    if (told) told.textContent = n === 1 ? told.dataset.one : told.dataset.many.replace("{n}", n);
    if (!all) return;
    const box = all.querySelector("input");
    box.checked = n > 0 && n === boxes.length;
    box.indeterminate = n > 0 && n < boxes.length;
  }

  if (all && boxes.length > 1) {
    all.hidden = false;
    all.addEventListener("change", (event) => {
      for (const box of boxes) box.checked = event.target.checked;
      count();
    });
  }

  /* With Shift everything between the last box and this one becomes as this one is. */
  form.addEventListener("click", (event) => {
    const at = boxes.indexOf(event.target);
    if (at < 0) return;
    if (event.shiftKey && last !== null) {
      for (const box of boxes.slice(Math.min(at, last), Math.max(at, last) + 1)) box.checked = event.target.checked;
    }
    last = at;
    count();
  });

  /* Twice sent would be decided once all the same; but the second answer would hide what the first one said. */
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  });
  addEventListener("pageshow", () => {
    delete form.dataset.sent;
    count();
  });
})();
