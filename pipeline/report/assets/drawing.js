// Plots are drawn one after another between the browser's own work; the page stays responsive meanwhile.
const SLICE_MS = 30;
const queue = [];
let drawing = false;

function countDrawn() {
  const root = document.documentElement;
  root.dataset.drawn = String(document.querySelectorAll("[data-plot].drawn").length);
  root.dataset.state = queue.length ? "drawing" : "ready";
}

// Draw `draw()` into `figure` soon; figures of folded sections are scheduled when they open.
function schedule(figure, draw) {
  queue.push({ figure, draw });
  if (!drawing) {
    drawing = true;
    document.documentElement.dataset.state = "drawing";
    setTimeout(drawSome);
  }
}

function drawSome() {
  const until = performance.now() + SLICE_MS;
  while (queue.length && performance.now() < until) {
    const { figure, draw } = queue.shift();
    draw();
    figure.classList.add("drawn");
  }
  countDrawn();
  drawing = queue.length > 0;
  if (drawing) setTimeout(drawSome);
}
