/** Time series as lines, areas or bars. */
import { html, useEffect, useRef, useState } from "../../../html.js";
import { numberText } from "../../../model/format.js";

const HEIGHT = 170;

// The chart library is large, so it loads while the page and its numbers are already visible.
const drawing = import("uplot");
// Charts handle this failure themselves, but the module may fail to load before there's a chart.
drawing.catch(() => null);

/**
 * A chart. `series` are `{label, values, colour, kind?}`, where `kind` is `line` or `bars`. `times` are in seconds.
 * `text` formats a value, and `summary` describes the chart for screen readers. `dates`: whether the times are days
 * (UTC).
 */
export function Chart({ title, times, series, summary, text = numberText, dates = false, aside }) {
  const box = useRef();
  const plot = useRef(null);
  const { uPlot, problem } = useDrawing();
  const look = useLook();
  const data = [times, ...series.map(({ values }) => values)];
  const form = JSON.stringify(series.map(({ label, colour, kind }) => [label, colour, kind]));
  useEffect(() => {
    if (!uPlot) return undefined;
    const { current } = box;
    const options = optionsOf(uPlot, series, look.colour, text, dates);
    plot.current = new uPlot({ ...options, width: Math.max(160, current.clientWidth), height: HEIGHT }, data, current);
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(160, current.clientWidth), height: HEIGHT }));
    watch.observe(current);
    return () => {
      watch.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [uPlot, form, look, dates]);
  useEffect(() => plot.current?.setData(data), [times, ...series.map(({ values }) => values)]);
  return html`
    <figure class="chart card">
      <figcaption>
        <h3>${title}</h3>
        ${aside && html`<span class="muted">${aside}</span>`}
        ${series.length > 1 && html`<span class="chart-legend">${series.map(({ label, colour }) => html`<span key=${label} class=${colour}>${label}</span>`)}</span>`}
      </figcaption>
      <div class="chart-plot" ref=${box} role="img" aria-label=${`${title}: ${summary}`}></div>
      ${problem && html`<p class="problem" role="alert">Couldn't load the charts. Reload the page.</p>`}
    </figure>`;
}

function useDrawing() {
  const [found, setFound] = useState({ uPlot: null, problem: null });
  useEffect(() => {
    drawing.then(({ default: uPlot }) => setFound({ uPlot, problem: null }), (problem) => setFound({ uPlot: null, problem }));
  }, []);
  return found;
}

function optionsOf(uPlot, series, colour, text, dates) {
  const grid = { stroke: colour("line"), width: 1 };
  const axis = { stroke: colour("muted"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    padding: [12, 18, 0, 0],
    legend: { show: true, live: true },
    ...(dates ? { tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC") } : {}),
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.08] } },
    axes: [
      { ...axis, grid: { show: false }, size: 28, space: 60, values: (_, moments) => moments.map((seconds) => momentOf(seconds, dates)) },
      { ...axis, size: (_, labels) => widthOf(labels), space: 34, values: (_, values) => values.map((value) => text(value)) },
    ],
    series: [
      { label: dates ? "Day" : "At", value: (_, seconds) => (seconds === null ? "" : momentOf(seconds, dates)) },
      ...series.map(({ label, colour: name, kind = "line" }) => ({
        label,
        stroke: colour(name),
        width: kind === "bars" ? 0 : 2,
        fill: kind === "bars" ? colour(name) : undefined,
        paths: kind === "bars" ? uPlot.paths.bars({ size: [0.75, 40], radius: 0.15 }) : undefined,
        spanGaps: true,
        points: { show: kind !== "bars", size: 4 },
        value: (_, value) => (value === null || value === undefined ? "–" : text(value)),
      })),
    ],
  };
}

/** Returns the width of the longest label at 11 px. */
function widthOf(labels) {
  return Math.max(40, 18 + 6.5 * Math.max(0, ...(labels ?? []).map((label) => label.length)));
}

const TIME = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });

function momentOf(seconds, dates) {
  return (dates ? DAY : TIME).format(new Date(seconds * 1000));
}

/** Returns a color's computed value, because a canvas doesn't support `light-dark()`. */
function computed(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Returns a function that maps a color's name to its value. It's a new function whenever the theme changes. */
function useLook() {
  const [look, setLook] = useState(() => ({ colour: computed }));
  useEffect(() => {
    const change = () => setLook({ colour: computed });
    const media = matchMedia("(prefers-color-scheme: dark)");
    const watch = new MutationObserver(change);
    media.addEventListener("change", change);
    watch.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      media.removeEventListener("change", change);
      watch.disconnect();
    };
  }, []);
  return look;
}
