import 'uplot/dist/uPlot.min.css';
import './style.css';
import { render } from 'preact';
import { Shell } from './shell/shell.tsx';

const root = document.getElementById('app');
if (root !== null) render(<Shell />, root);
