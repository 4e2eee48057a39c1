/** Light or dark without loading the page again; the server keeps the choice in a cookie. */
export function setUpTheme(): void {
  const form = document.querySelector<HTMLFormElement>("[data-theme-form]");
  form?.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!(button instanceof HTMLButtonElement)) return;
    event.preventDefault();
    document.documentElement.dataset["theme"] = button.value;
    for (const other of form.querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    const body = new URLSearchParams(new FormData(form, button) as never);
    void fetch(form.action, { method: "POST", body, redirect: "manual" });
  });
}
