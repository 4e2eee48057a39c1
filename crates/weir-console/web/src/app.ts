/** The console's script. Every page works without it; it makes them live. */
import { setUpCharts } from "./charts";
import { setUpCopying } from "./copying";
import { setUpFragments } from "./fragments";
import { openStream } from "./stream";
import { setUpSelection } from "./selection";
import { setUpTail } from "./tail";
import { setUpTheme } from "./theme";

const chartsTick = setUpCharts();
const fragmentsTick = setUpFragments();
setUpTheme();
setUpCopying();
setUpSelection();
setUpTail();

// Counts may come to be known later than the page.
if (document.querySelector("[data-live], [data-fragment], [data-chart]")) {
  openStream((tick) => {
    chartsTick(tick);
    fragmentsTick();
  });
}
