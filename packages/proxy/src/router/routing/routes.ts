// Routes are a port of the server package because nodes keep routes too: they tell clients the holder of a partition.
export type { Holder, RoutedNode, Routes } from '@taskmaster/server/ports';
