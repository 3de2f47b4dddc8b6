import parser from 'robots-parser';

/** The parsed robots.txt of a site. */
export interface Robots {
  isDisallowed(url: string, userAgent: string): boolean | undefined;
  /** In seconds. */
  getCrawlDelay(userAgent: string): number | undefined;
}

/** The package exports the function itself, but its types declare a default export. */
const robotsParser = parser as unknown as (url: string, rules: string) => Robots;

/** @param url URL of the robots.txt. @param rules its content. Empty: all pages are allowed. */
export function parseRobots(url: string, rules: string): Robots {
  return robotsParser(url, rules);
}
