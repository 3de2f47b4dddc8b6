import type { PaperResult } from '../result.ts';
export async function writeReport(_r: PaperResult, _o: string): Promise<string[]> {
  return [];
}
