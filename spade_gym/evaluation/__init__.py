"""How good is a model on tasks that it was not trained on, how sure is that, and is it better than another one?"""
