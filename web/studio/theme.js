// Runs in the document before the first paint, so that pages don't flash in the wrong theme.
const chosen = localStorage.getItem("aes.studio.theme");
if (chosen) document.documentElement.dataset.theme = chosen;
