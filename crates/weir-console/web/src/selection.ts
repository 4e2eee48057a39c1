/** "Select all" and the number of ticked jobs on a list. */
export function setUpSelection(): void {
  const all = document.querySelector<HTMLInputElement>("[data-select-all]");
  const shown = document.querySelector<HTMLOutputElement>("[data-selected]");
  if (!all || !shown) return;
  const boxes = [...document.querySelectorAll<HTMLInputElement>('input[name="key"]')];
  const show = () => {
    const ticked = boxes.filter((box) => box.checked).length;
    shown.textContent = ticked ? `(${ticked})` : "";
    all.checked = ticked === boxes.length;
    all.indeterminate = ticked > 0 && ticked < boxes.length;
  };
  all.hidden = false;
  all.addEventListener("change", () => {
    boxes.forEach((box) => (box.checked = all.checked));
    show();
  });
  boxes.forEach((box) => box.addEventListener("change", show));
  show();
}
