-- Four statements: train on flowers drawn like irises, measure on the irises, predict them, look at the predictions.

SELECT * FROM flowers
TO TRAIN DNNClassifier
WITH model.hidden_units = [512, 256], train.epoch = 20, train.batch_size = 512,
     train.num_workers = 2, train.scaling = "all"
LABEL species
INTO iris_model;

SELECT * FROM iris
TO EVALUATE iris_model
WITH validation.metrics = "Accuracy"
LABEL species
INTO iris_scores;

SELECT * FROM iris
TO PREDICT iris_predictions.predicted
USING iris_model;

SELECT species, predicted, count(*) AS flowers
FROM iris_predictions
GROUP BY ALL
ORDER BY ALL;
