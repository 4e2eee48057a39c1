/** Parts of a page that the server renders again: `<div data-fragment="/live/queues">`. */

/** Not more often than this, whatever the stream's pace. */
const REFRESH_MS = 2_000;

/** The result is called at each tick of the live stream. */
export function setUpFragments(): () => void {
  const parts = [...document.querySelectorAll<HTMLElement>("[data-fragment]")];
  let refreshedAt = Date.now();
  let isBusy = false;
  return () => {
    if (isBusy || Date.now() - refreshedAt < REFRESH_MS) return;
    isBusy = true;
    refreshedAt = Date.now();
    void Promise.all(parts.map(refresh)).finally(() => (isBusy = false));
  };
}

async function refresh(part: HTMLElement): Promise<void> {
  try {
    const response = await fetch(part.dataset["fragment"] ?? "", { redirect: "error" });
    if (!response.ok) return;
    const html = await response.text();
    const fresh = new DOMParser().parseFromString(html, "text/html").body;
    if (fresh.innerHTML !== part.innerHTML) replace(part, fresh);
  } catch {
    // The stream says that the server is gone; the next tick tries again.
  }
}

/** Puts the new part in place and the focus back where it was. */
function replace(part: HTMLElement, fresh: HTMLElement): void {
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  const isChoosing = window.getSelection()?.isCollapsed === false;
  // A button that goes between pressing and letting go would not be pressed.
  if (part.querySelector(":active")) return;
  if (isChoosing && part.contains(window.getSelection()?.anchorNode ?? null)) return;
  const link = focused instanceof HTMLAnchorElement ? focused.getAttribute("href") : null;
  part.replaceChildren(...fresh.childNodes);
  if (!focused) return;
  const again = focused.id
    ? document.getElementById(focused.id)
    : [...part.querySelectorAll("a")].find((anchor) => anchor.getAttribute("href") === link);
  again?.focus({ preventScroll: true });
}
