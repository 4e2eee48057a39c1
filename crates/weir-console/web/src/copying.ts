/** Buttons that copy the text of an element: `<button data-copy="ID" hidden>`. */
export function setUpCopying(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-copy]")) {
    // Browsers allow copying on loopback and through TLS only.
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", () => {
      const text = document.getElementById(button.dataset["copy"] ?? "")?.textContent ?? "";
      void navigator.clipboard.writeText(text.trim()).then(() => {
        const label = button.textContent;
        button.textContent = "Copied";
        window.setTimeout(() => (button.textContent = label), 1_500);
      });
    });
  }
}
