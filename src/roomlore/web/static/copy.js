// Copies a page's JSON. Without scripts, its link works as well.
const link = document.querySelector("[data-copy]");
const button = document.querySelector("[data-copies]");
const status = document.querySelector("[data-copied]");
if (link && button && status && navigator.clipboard) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      const response = await fetch(link.dataset.copy, { credentials: "same-origin" });
      if (!response.ok) throw new Error(String(response.status));
      await navigator.clipboard.writeText(await response.text());
      status.textContent = "Copied.";
    } catch {
      status.textContent = "It could not be copied; open it as JSON.";
    }
  });
}
