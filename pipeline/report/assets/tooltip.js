// One tooltip for the whole page.
const tooltip = document.getElementById("tooltip");
const GAP = 14;

function showTooltip(x, y, ...content) {
  tooltip.replaceChildren(...content);
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  const left = x + GAP + width > innerWidth ? x - GAP - width : x + GAP;
  const top = y + GAP + height > innerHeight ? y - GAP - height : y + GAP;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, top)}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}
