// Stands in the document and runs before the first paint, so that a page chosen to be dark never flashes.
const chosen = localStorage.getItem("aes.studio.theme");
if (chosen) document.documentElement.dataset.theme = chosen;
