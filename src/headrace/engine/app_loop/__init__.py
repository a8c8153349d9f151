"""The app on its event loops: opens the store on each, and asks it again while it is away."""
