// Runs in the document before the first paint, so that a page in the dark theme never flashes.
const chosen = localStorage.getItem("aes.studio.theme");
if (chosen) document.documentElement.dataset.theme = chosen;
