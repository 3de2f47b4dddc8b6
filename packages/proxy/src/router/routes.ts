// Nodes keep routes, too: a node tells clients where what it does not hold is.
export type { Holder, RoutedNode, Routes } from '@taskmaster/server/ports';
